"""A reproducer as one HTML page: nothing is loaded from anywhere, and no text in it can become script."""

from kerncap.report.html.material import Material
from kerncap.report.html.page import render

__all__ = ["Material", "render"]
