"""How much room the database takes."""

from django.db import connection


def size_bytes() -> int:
    """Bytes of all tables and indices. Blocking.

    Raises:
        DatabaseError: it does not answer.
    """
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT pg_database_size(current_database())")
        else:
            cursor.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
        return int(cursor.fetchone()[0])
