import unittest
from decimal import Decimal

from basket.shipping import TooHeavyError, cost


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

    def test_free_from_fifty_euros(self) -> None:
        self.assertEqual(cost(Decimal("49.99"), 300), Decimal("2.90"))
        self.assertEqual(cost(Decimal("50.00"), 300), Decimal("0.00"))

    def test_never_free_to_another_country(self) -> None:
        self.assertEqual(cost(Decimal("80.00"), 300, "AT"), Decimal("8.90"))

    def test_a_limit_belongs_to_the_cheaper_band(self) -> None:
        prices = {500: "2.90", 501: "4.90", 2_000: "4.90", 2_001: "8.90", 10_000: "8.90"}
        for grams, price in prices.items():
            with self.subTest(grams=grams):
                self.assertEqual(cost(Decimal("12.00"), grams), Decimal(price))

    def test_one_gram_too_heavy(self) -> None:
        with self.assertRaises(TooHeavyError):
            cost(Decimal("12.00"), 10_001)
