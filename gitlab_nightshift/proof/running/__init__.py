"""Faults planted into product code (mutation testing): do the tests still notice them?"""
