"""Static files under names that carry a hash of their content, so browsers may keep them for ever."""

from whitenoise.storage import CompressedManifestStaticFilesStorage  # type: ignore[import-untyped]

# Only `import {...} from "./name.js";`, as our modules write it. Django's own patterns
# (support_js_module_import_aggregation) also look into comments, and htmx has imports in those.
_OUR_IMPORTS = (
    r"""(?P<matched>import (?P<import>\{[^}]*\}) from "(?P<url>\./[\w-]+\.js)";)""",
    """import %(import)s from "%(url)s";""",
)


class HashedStatics(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    """Also rewrites the imports between our ES modules to the hashed names."""

    patterns = (*CompressedManifestStaticFilesStorage.patterns, ("*.js", (_OUR_IMPORTS,)))
