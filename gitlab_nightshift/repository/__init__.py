"""The repository: git, the checkout while agents work in it, changes as trees and patches."""
