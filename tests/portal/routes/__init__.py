"""Who may call what: every route of HTTP and every websocket, tried by everybody."""
