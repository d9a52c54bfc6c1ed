"""A migration that landed has run in somebody's database: it never changes and needs no code of ours.

A new one is added here by the commit that brings it, with the line that the test shows. Until
then it may be made anew as often as you like; afterwards a change of models is the next migration.
"""

import ast
import hashlib
from importlib import import_module
from pathlib import Path

from django.db.migrations import AddField

from tests.repository.test_documents import ROOT

# The SHA-256 of each file's bytes.
LANDED = {
    "jobs/migrations/0001_initial.py": "3d4821e740e01f0578f621678905292a10164916c0a6be5ad5c0db5b6bc7326f",
    "jobs/migrations/0002_initial.py": "d759862ba4f96e806bfc300616ad5d092a6f4211b1a319405e3c5e6d98e038b8",
    "jobs/migrations/0003_segment_sizes.py": "645953a627ede818bdbb612ea895a0933193cc2bd32fcbaa094d67397104dc03",
    "jobs/migrations/0004_usage_moves_out.py": "10cdf20f7ed70f5814eebf8f5c78e40a891d7946114824462bde167836af0aa0",
    "jobs/migrations/0005_one_table.py": "a2daed5a55bdf57cd9bdfb24d0743fea84a53008d310efc0320d4324df890029",
    "jobs/migrations/0006_move_services.py": "9cdc69a2a9fe28dbdb47a89ae99767befad1257386ad372a9c58fa7b4e1763e5",
    "jobs/migrations/0007_old_columns_go.py": "b00001c0feb07bac8f81d7b14d58d68e83dfb0861558638f57abee79acea18d4",
    "jobs/migrations/0008_idempotent_requests.py": "cc2ec565c421f51d9983f938b663552dc64571666940e22e67e93c8901488203",
    "jobs/migrations/0009_attempts.py": "9fa983529b02094099b0c31ad788117071551b1bd2ab8093b7911fbced71390e",
    "jobs/migrations/0010_source_commit.py": "470814bdca5f3c4bcd36ac6de8ee7ce14afc7071b164c6891052b3fcb8b46f14",
    "jobs/migrations/0011_requests_without_claims.py": "b140164e5fe0acf579f22aecacfef6676be8cf6069ce5bafce0997ac81e2d320",
    "jobs/migrations/0012_suspended.py": "c278d48a15fc2a48b095f46eb88e730bdd022d4f0f9317263189c0fac6af5cdf",
    "jobs/migrations/0013_replica_address.py": "74b848360a61260b6e1b91e31fb378c3f6e540b513fcb2337039b10df482f18d",
    "jobs/migrations/0014_user_secrets.py": "2470dee2e40044c4033994300f39dd53f6066e2f9a81c89c05ae5a0150da789c",
    "jobs/migrations/0015_templates.py": "953b5a0efbf016708a19dcbfad02b6c0c544f4138e4db5cb3a72e13731af0fd0",
    "jobs/migrations/0016_last_checkpoint.py": "d328da05961d2d1e0daae56958f1b2a6ea780c049bf5c9e8d53889196e3042a7",
    "jobs/migrations/0017_dry_runs.py": "cd42ee146cfc7a2ebe3c714b0802a7fe2e5fa6b17d822b4ca80e01c738c13259",
    "jobs/migrations/0018_node_reservations.py": "89357df049b8ec447b9e389f8ddd2e1ed26970b6a86181d7c0ac5a72830df93a",
    "jobs/migrations/0019_preemption.py": "f74ad61957bcabf0acee6c9e8013ec2666f332b1199f89178d1f3ba851eef9e3",
    "jobs/migrations/0020_queue_places.py": "e67c9e97afeb42e6e16be15eadc5987fc121d605070eb28d9fe5750379657654",
    "jobs/migrations/0021_preempted_why.py": "a8b0c9a0f8133ed46f7f6bf01b1cff270dca82313fee6a2a37c26be1f0adb6b1",
    "jobs/migrations/0022_guards.py": "481881380799b4ea8dbbe89151c815f6e3c0e45bdf948aca86473445c95b03a3",
    "jobs/migrations/0023_gpu_device_counts.py": "5c5111ede99a618ff2ed643094183ec618112f795cc5eb5517549f5308c8a34a",
    "jobs/migrations/0024_dry_run_askers.py": "589756274867d867dcfca3dd08bd64443f6d4e4f4a3dcce225bac0e212b0b727",
    "jobs/migrations/0025_container_runs.py": "37666ec44b92ad0965715788d20ad11b7ff7b9232dabbcab1977bbf3e3087cb5",
    "jobs/migrations/0026_node_images.py": "c40824416db28b63f874088044905d192f8d66b5ebb4dfef765293328b8ad036",
    "jobs/scheduling/migrations/0001_initial.py": "4a4a8c459e7189f87e4b84d5fef906dfa9b401532998a54f02a46aa44d476dd3",
    "jobs/scheduling/migrations/0002_node_holds.py": "239ccef187a1d18239c2ce539b0519eed92ea5ad54bc55ce0adc83ec2e7bb987",
    "jobs/usage/migrations/0001_from_jobs.py": "77805004d00d4cd1c9559d2afd21b13a245517f50b4fc5878c9bb0b39d3eb904",
    "jobs/usage/migrations/0002_any_kind.py": "f4bc5bdb1c6a27931caee9bac349c0c0caf0742b7edf759bc238f7dc8d7e68e2",
    "jobs/usage/migrations/0003_utilisation.py": "19e964329677ab260ac52c35972b63fd9cde75cf2c506e2d60186e3bdb3c876c",
    "portal/migrations/0001_initial.py": "7be889019828ee90114542b717981c8feab42b779f44a4d251fb8015bbd190d7",
    "tenants/migrations/0001_initial.py": "33a4baee0bf5cc07de10dd3940e12cf2ea887ee294eaba9a31cc191ba83aa106",
    "tenants/migrations/0002_people_move_out.py": "1e063d08b5e2aeed3e6af1368eb47d338521e4e20cecaa28734487367391a6d9",
    "tenants/migrations/0003_weights.py": "786ce01c181c29b4d8fe5f2631d1faa10120704e65a6e907c85c2d1cdb0345d6",
    "tenants/migrations/0004_object_names.py": "4c6c63b2573d9c86894186a9773ead71d79a5398973305f4193c94a0873b71bf",
    "tenants/people/migrations/0001_from_tenants.py": "c2817c587f203b164844210daae61039bad228d457d67efee4796ce13c34edd4",
}
OURS = {"deploy", "jobs", "portal", "tenants", "tests"}


def migrations() -> list[Path]:
    found = [ROOT.glob(f"{app}/**/migrations/[0-9]*.py") for app in ("jobs", "portal", "tenants")]
    return sorted(path for paths in found for path in paths)


def test_a_landed_migration_never_changes() -> None:
    found = {
        str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in migrations()
    }
    changed = [name for name in LANDED if name in found and found[name] != LANDED[name]]
    assert not changed, "put back what landed, and say the change in a new migration"
    assert not LANDED.keys() - found.keys(), "databases still know it: put it back"
    new = "".join(f'    "{name}": "{found[name]}",\n' for name in found if name not in LANDED)
    assert not new, f"add to LANDED, as the last thing before it lands:\n{new}"


def test_migrations_import_nothing_that_may_change() -> None:
    found = []
    for path in migrations():
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "" if node.level == 0 else "." * node.level]
            found += [
                f"{path.relative_to(ROOT)}: {name}"
                for name in names
                if name.startswith(".") or name.partition(".")[0] in OURS
            ]
    assert not found


# It landed without the line and stays as it is: every `serve` is stopped for it, which is more than it needs.
SILENT = ["jobs.migrations.0025_container_runs"]


def test_a_migration_that_only_adds_says_that_older_code_may_run() -> None:
    silent = []
    for path in migrations():
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        migration = import_module(name).Migration
        only_adds = all(
            isinstance(step, AddField) and (step.field.null or step.field.has_db_default())
            for step in migration.operations
        )
        if only_adds and not getattr(migration, "older_code_may_run", False):
            silent.append(name)
    assert silent == SILENT, "without the line, the version before refuses to start on it"
