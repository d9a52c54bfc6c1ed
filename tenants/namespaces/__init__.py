"""The life of namespaces as admins see and steer it: list, page, and the verbs from make to purge."""
