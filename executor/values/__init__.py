"""Values that travel beyond plain data: the table, and one module for each family of rows."""

from .table import REGISTRY, Conversion, Registered, register_value

__all__ = ["REGISTRY", "Conversion", "Registered", "register_value"]
