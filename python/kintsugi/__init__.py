"""Kintsugi: compiles Python functions over small arrays as they run, and mends the places where it cannot."""
