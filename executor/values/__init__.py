"""Values that travel beyond plain data: the table, and one module for each family of rows."""

from .table import DATA_ONLY, REGISTRY, Conversion, Registered, register_value

__all__ = ["DATA_ONLY", "REGISTRY", "Conversion", "Registered", "register_value"]
