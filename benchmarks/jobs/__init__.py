"""Small jobs through the whole product: how soon one begins, and how fast its steps are."""
