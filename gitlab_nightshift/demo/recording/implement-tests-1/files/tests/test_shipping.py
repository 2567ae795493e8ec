import unittest
from decimal import Decimal

from basket.shipping import BANDS, FREE_FROM, TooHeavyError, cost


class CostTest(unittest.TestCase):
    def test_light_parcel(self) -> None:
        self.assertEqual(cost(Decimal("12.00"), 300), Decimal("2.90"))

    def test_to_another_country(self) -> None:
        self.assertEqual(cost(Decimal("12.00"), 300, "AT"), Decimal("8.90"))

    def test_large_order_ships_free(self) -> None:
        self.assertEqual(cost(Decimal("80.00"), 1_200), Decimal("0.00"))

    def test_too_heavy(self) -> None:
        with self.assertRaises(TooHeavyError):
            cost(Decimal("80.00"), 12_000)

    def test_free_from_threshold(self) -> None:
        cent = Decimal("0.01")
        self.assertEqual(cost(FREE_FROM - cent, 300), Decimal("2.90"))
        self.assertEqual(cost(FREE_FROM + cent, 300), Decimal("0.00"))

    def test_never_free_to_another_country(self) -> None:
        self.assertEqual(cost(Decimal("80.00"), 300, "AT"), Decimal("8.90"))

    def test_limits_of_the_bands(self) -> None:
        for limit, price in BANDS:
            with self.subTest(limit=limit):
                self.assertEqual(cost(Decimal("12.00"), limit), price)
