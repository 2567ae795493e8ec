"""Which proxy of the job is asked for which address."""

import pytest

from gitlab_nightshift.system.job_proxy import find_job_proxy

ENV = {
    "HTTPS_PROXY": "http://one:3128",
    "http_proxy": "two:8080",
    "NO_PROXY": " 10.0.0.0/8 ,fd00::/8, .corp,gitlab.example.com:443,192.168.1.7",
}


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("https://api.example.org/x", "http://one:3128"),
        ("http://api.example.org", "http://two:8080"),
        ("https://10.1.2.3:8081", ""),
        ("https://11.1.2.3:8081", "http://one:3128"),
        ("https://[fd00::2]:443", ""),
        ("https://[2606:4700::1]:443", "http://one:3128"),
        ("https://mirror.corp", ""),
        ("https://corp", ""),
        ("https://acorp", "http://one:3128"),
        ("https://gitlab.example.com", ""),
        ("https://192.168.1.7", ""),
        ("https://192.168.1.70", "http://one:3128"),
        ("https://127.0.0.1:1", ""),
        ("http://localhost", ""),
    ],
)
def test_the_variables_of_the_job(url: str, proxy: str) -> None:
    assert find_job_proxy(url, ENV) == proxy


def test_the_lower_case_counts_first_and_a_star_is_everything() -> None:
    both = {"HTTPS_PROXY": "http://upper", "https_proxy": "http://lower"}
    assert find_job_proxy("https://a.example", both) == "http://lower"
    assert find_job_proxy("https://a.example", {**both, "no_proxy": "*"}) == ""
    assert find_job_proxy("https://a.example", {}) == ""
