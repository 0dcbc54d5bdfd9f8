"""All-reduce and data-parallel training between processes of this machine, against torch gloo and MPI."""
