"""Operations of all nodes of a group on arrays, and the memory that nodes of one host share for them."""
