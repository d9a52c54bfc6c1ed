"""A command that a shell would treat otherwise gets a hint, and no other: bash itself says which."""

import shlex
import subprocess
from pathlib import Path

import pytest

from jobs.rules.shell_words import typed_hints, word_hints

# Lines of which bash makes other words, or other commands, than their words are.
OTHERWISE = r"""
python t.py --lr $LR
python t.py --lr ${LR}
python t.py "--lr=$LR"
python t.py --at $(date)
python t.py --at `date`
python t.py "`date`"
python t.py "costs \$5"
python t.py $'a\tb'
python t.py > log.txt
python t.py 2>&1
python t.py>log.txt
python t.py && true
cd src && python t.py
python t.py | cat
python t.py|cat
python t.py; true
python t.py &
export A=1; python t.py
python t.py # the first try
python t.py *.py
python t.py ~/data
python t.py ~
python t.py --model {small,large}
python t.py --seed {1..3}
python t.py --betas (0.9,0.99)
python t.py < a.py
""".strip().splitlines()
ORDINARY = (
    r"""
python train.py
python train.py --lr 0.1 --epochs 10
python -m mypkg.train --config=conf/a.yaml
python train.py --name 'two words'
python train.py --name "it's"
python train.py --name "a \"b\" c"
python train.py --sep '|' --quote '"'
python train.py --glob '*.py'
python train.py --price '$5' --home '~/x'
python train.py --data {{data_dir}} --out {{log_dir}}/out
python train.py --hosts={{worker_hosts}}
python train.py "--data={{data_dir}}/a b"
python train.py --layers [64,64] model.width=3
python train.py model={width:3}
python train.py --url http://host/a?b=1
python train.py --expr 'a && b; c | d > e'
python train.py --note 'costs $5 # really'
python train.py --tag v1#2
python train.py --percent 50%
python train.py --mail a@b.c
python train.py --neg -1 --range 1..3
python train.py --re '^a$' --re2 'x{1,3}'
python train.py --eq a==b --ne a!=b
python train.py --window 3:4
python train.py --path /data/a/b.csv --tilde a~b
python train.py --path \
  /data
python -c 'import torch; print(torch.__version__)'
python -c "print('a')"
python -u train.py
./run.sh --fast
/usr/bin/python3.11 train.py
bash run.sh
sh run.sh a b
bash -x run.sh
sh -c 'cd src && python t.py --lr $LR | tee log'
bash -lc 'source env.sh; python t.py'
torchrun --nproc-per-node=2 train.py
accelerate launch train.py --mixed_precision fp16
deepspeed train.py --deepspeed ds.json
mpirun -np 4 python train.py
mpirun -x LD_LIBRARY_PATH --bind-to none python t.py
jupyter nbconvert --to notebook --execute a.ipynb
env A=1 python train.py
env CUDA_VISIBLE_DEVICES=0 python t.py
Rscript train.R --n 10
java -Xmx2g -jar a.jar
julia train.jl
/usr/bin/time -v python train.py
conda run -n x python train.py
bash -c 'python "$@"' sh train.py
bash -c 'python train.py' train.py
sh -c ./run.sh run.sh
python train.py --re 'step:\d+'
echo done
python train.py --name Größe --other 试验
""".strip()
    .replace("\\\n", "\\\x00")
    .splitlines()
)
ORDINARY = [line.replace("\x00", "\n") for line in ORDINARY]
ORDINARY.append("python train.py --prompt 'Er sagte: \u201eJa\u201c \u2013 und ging'")


# Typed or given as words -> the same is said of both, once, with this line to write.
OF_BOTH: dict[str, str] = {
    "python t.py >log.txt": "sh -c 'python t.py >log.txt'",
    "python t.py 2>err": "sh -c 'python t.py 2>err'",
    "python t.py &>/log/all": "bash -c 'python t.py &>/log/all'",
    "python t.py <in.txt": "sh -c 'python t.py <in.txt'",
    "python t.py>log.txt": "sh -c 'python t.py>log.txt'",
    "python t.py --at `date`": "sh -c 'python t.py --at `date`'",
    "python t.py --run=r-`date`": "sh -c 'python t.py --run=r-`date`'",
    "python t.py *.csv": "sh -c 'python t.py *.csv'",
    "rm -f /log/*.ckpt": "sh -c 'rm -f /log/*.ckpt'",
    "python a.py && rm -f *.x": "sh -c 'python a.py && rm -f *.x'",
    "python t.py --seed {1..3}": "bash -c 'python t.py --seed {1..3}'",
    "python t.py --model {small,large}": "bash -c 'python t.py --model {small,large}'",
    "python t.py ~": "sh -c 'python t.py ~'",
    "python t.py ~ada/data": "sh -c 'python t.py ~ada/data'",
    "python t.py|tee log": "sh -c 'python t.py|tee log'",
    "python t.py |tee log": "sh -c 'python t.py |tee log'",
    "python a.py&&python b.py": "sh -c 'python a.py&&python b.py'",
    "python a.py &&python b.py": "sh -c 'python a.py &&python b.py'",
    "python t.py |& tee log": "bash -c 'python t.py |& tee log'",
    "cd src && python t.py": "sh -c 'cd src && python t.py'",
    "source a.sh && python t.py": "bash -c 'source a.sh && python t.py'",
    "source a.sh": "bash -c 'source a.sh'",
    "time python t.py": "bash -c 'time python t.py'",
    "time python t.py | tee log": "bash -c 'time python t.py | tee log'",
    "let x=1": "bash -c 'let x=1'",
    "exit 0": "sh -c 'exit 0'",
    "command python t.py": "Write: python t.py",
    "command -v python": "sh -c 'command -v python'",
    "!python t.py": "Write: python t.py",
    "!python t.py | tee log": "sh -c 'python t.py | tee log'",
    "%run t.py --lr 1": "Write: python t.py --lr 1",
    "%pip install x": "Write: pip install x",
    "$ python t.py": "Write: python t.py",
    "$ python t.py | tee log": "sh -c 'python t.py | tee log'",
    "conda activate x": "conda run --no-capture-output -n x COMMAND",
    "conda activate x && python t.py": "conda run --no-capture-output -n x python t.py",
    "source activate /envs/x; python t.py | tee log": (
        "conda run --no-capture-output -p /envs/x sh -c 'python t.py | tee log'"
    ),
    "micromamba activate x && python t.py": "micromamba run -n x python t.py",
    "bash -c python t.py": "bash -c 'python t.py'",
    "/bin/bash -ec python t.py --lr 1": "/bin/bash -ec 'python t.py --lr 1'",
    "bash -c python t.py > log": "bash -c 'python t.py > log'",
    "sh -c 'python t.py' --lr 1": "sh -c 'python t.py --lr 1'",
    "python t.py --data=C:/x/a.csv": "write: a.csv",
    "python t.py --offset \u22121": "Write: -1",
    "python t.py --lr=\u22120.1": "Write: --lr=-0.1",
    "python t.py --lr 1e\u22123": "Write: 1e-3",
    "python t.py --at [\u2212.5,\u20132]": "Write: [-.5,-2]",
    "python t.py --pages 10\u201320": "Write: 10-20",
    "python t.py --batch\u2013size 3": "Write: --batch-size",
    "python t.py --batch\u2011size=a\u2011b": "Write: --batch-size=a\u2011b",
    "python \u2013m pkg": "Write: -m",
    "python t.py --learn\u00ading 3": "Write: --learning",
    "python t.py --lr\u200b=3": "Write: --lr=3",
    "python \u200et.py": "Write: t.py",
    "python t.py --lr\uff1d3": "Write: --lr=3",
    "python t.py --name\uff1d\u8bd5\u9a8c": "Write: --name=\u8bd5\u9a8c",
    "python t.py --betas 0.9\uff0c0.99": "Write: 0.9,0.99",
    "python t\u3002py": "Write: t.py",
    "python t.py --con\ufb01g=con\ufb01g.yaml": "Write: --config=config.yaml",
    "python t.py --name \u00b4a\u00b4": "Write: 'a'",
}
# Words that mean their signs, as programs that are given them do.
MEANT: list[list[str]] = [
    ["python", "t.py", "--unk", "<unk>", "--pad=<pad>", "--eos", "<|endoftext|>"],
    ["python", "t.py", "--where", ">5", "--than", ">=1.0"],
    ["pip", "install", "torch>=2.0,<3"],
    ["python", "t.py", "--classes", "dog|cat", "--re", r"^a.*\.py$|b", "--langs", "java;python"],
    ["python", "t.py", "--files", "/data/train-*.tfrecord", "--glob=*.py"],
    ["python", "t.py", "--shards", "/data/shard-{000000..000999}.tar"],
    ["python", "t.py", "model.layers=[*]", "seed={1..3}"],
    ["python", "t.py", "--json", '{"a":1,"b":2}', "--re=x{1,3}"],
    ["python", "t.py", "--betas", "(0.9,0.99)", "--sep", "~", "--color", "#ff0000"],
    ["python", "t.py", "--prompt", "Use `date` and > or | {a,b} *.py ~ for it"],
    ["python", "t.py", "--sep=;", "--quote", "`", "--x", "1"],
    ["python", "calc.py", "3", "*", "4"],
    ["find", "/data", "-name", "*.csv"],
    ["sh", "-c", 'exec "$@"', "sh", "python", "t.py"],
    ["python", "t.py", "--re", r"step:\d+", "--url", "s3://b/x", "--host", "a:/b"],
    ["python", "t.py", "--text", "\u4f60\u597d\uff0c\u4e16\u754c", "--end=\u3002"],
    ["python", "t.py", "--title", "Modell\u2013A", "--years", "2020 \u2013 2021"],
    ["python", "t.py", "--name", "\u05d0\u200f\u05d1"],
]


def of_bash(line: str, folder: Path) -> list[str] | None:
    """The words that a program gets; None: bash does something else, too."""
    script = f'f() {{ printf "%s\\0" "$@"; }}\nf {line}\nprintf "\\1"'
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": "/home/x"},
        capture_output=True,
        check=False,
        timeout=20,
    )
    given, _mark, rest = done.stdout.decode().partition("\1")
    is_alone = done.returncode == 0 and not rest and _mark
    return given.split("\0")[:-1] if is_alone else None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("code")
    (made / "a.py").write_text("")
    return made


@pytest.mark.parametrize("line", OTHERWISE)
def test_what_a_shell_treats_otherwise_is_said(line: str, folder: Path) -> None:
    if line not in {"python t.py &", "cd src && python t.py", "export A=1; python t.py"}:
        assert of_bash(line, folder) != shlex.split(line), "the line itself is no case of it"
    hints = typed_hints(line)
    assert len(hints) in {1, 2}, hints
    assert "sh -c " in " ".join(hints)


@pytest.mark.parametrize("line", OF_BOTH)
def test_a_line_and_its_words_get_one_hint_that_leads_to_a_right_line(line: str) -> None:
    (of_line,), (of_words,) = typed_hints(line), word_hints(shlex.split(line))
    assert of_line == of_words
    assert of_line.endswith(OF_BOTH[line])


@pytest.mark.parametrize("words", MEANT, ids=" ".join)
def test_signs_that_a_word_of_a_list_may_mean_get_no_hint(words: list[str]) -> None:
    assert word_hints(words) == []
    assert typed_hints(shlex.join(words)) == []


def test_what_only_bash_itself_knows_is_no_program() -> None:
    listed = subprocess.run(
        ["bash", "-c", "compgen -bk"], capture_output=True, text=True, check=True, timeout=20
    )
    known = {*listed.stdout.split()} - {"]]", "}", ":"}
    folders = [Path("/usr/bin"), Path("/bin")]
    own = {name for name in known if not any((folder / name).exists() for folder in folders)}
    assert len(own) > 40
    for name in {*own, "time"}:
        assert "no program" in " ".join(word_hints([name, "x"])), name


def test_a_variable_for_a_shell_is_said_only_outside_its_script() -> None:
    assert typed_hints('sh -c "cd src && python t.py --lr $LR"') == []
    assert "$LR" in " ".join(typed_hints('sh -c "python t.py" "$LR" | tee log'))


@pytest.mark.parametrize("line", ORDINARY)
def test_an_ordinary_command_gets_no_hint(line: str, folder: Path) -> None:
    words = shlex.split(line.replace("\\\n", " "))
    assert of_bash(line, folder) == words, "the line is not ordinary"
    assert typed_hints(line) == []
    if not {"|", "$5", "~/x"} & {*words}:  # quoted, which words do not say
        assert word_hints(words) == []


# Typed -> a part of what is said, and what is to be written.
SAID = {
    "$ python t.py": ("$ is the prompt", "Write: python t.py"),
    "ada@host:~$ python t.py --lr 1": ("the prompt", "Write: python t.py --lr 1"),
    "A=1 B=2 python t.py": ("environment variable", "env A=1 B=2 python t.py"),
    "cd src": ("cd is a word of shells", "sh -c 'cd src'"),
    "source env/bin/activate": ("source is a word of shells", "sh -c"),
    "exec python t.py": ("exec is a word of shells", "Write: python t.py"),
    r"python C:\Users\x\t.py": (r"C:\Users\x\t.py is a path of Windows", "write: t.py"),
    "python t.py\u00a0--lr 1": ("U+00A0", "Write: t.py --lr"),
    "python t.py \u2014epochs 3": ("U+2014", "Write: --epochs"),
    "python t.py -\u2013lr 3": ("U+2013", "Write: --lr"),
    "python t.py \u201ca b\u201d": ("U+201C", 'Write: "a'),
    "python t.py --name=\u2018a\u2019": ("U+2018", "Write: --name='a'"),
    "python t.py\ufeff": ("U+FEFF", "Write: t.py"),
    "'python t.py --lr 1'": ("is one word", "python t.py --lr 1"),
    "python a.py\npython b.py": ("a new line", "sh -c 'python a.py\npython b.py'"),
    "sh -c 'python t.py \u2014lr 1'": ("U+2014", "Write: --lr"),
    "sh -c 'python t.py' | tee log": ("|", "sh -c "),
}


@pytest.mark.parametrize("line", SAID)
def test_a_hint_names_the_sign_and_what_to_write(line: str) -> None:
    first, *more = typed_hints(line)
    assert not more
    for part in SAID[line]:
        assert part in first


# Typed -> all that is said of it is this line to write, which no sentence contradicts; and what is not said.
RIGHT_LINE: dict[str, tuple[str, str]] = {
    "CUDA_VISIBLE_DEVICES=0 python t.py": ("env CUDA_VISIBLE_DEVICES=0 python t.py", "Enter"),
    "LD_LIBRARY_PATH=/x python t.py": ("env LD_LIBRARY_PATH=/x python t.py", "Enter"),
    "A=1; python t.py": ("sh -c 'A=1; python t.py'", "env A"),
    "FOO=1 && python t.py": ("sh -c 'FOO=1 && python t.py'", "env FOO"),
    "FOO=1 python t.py | tee log": ("sh -c 'FOO=1 python t.py | tee log'", "env FOO"),
    "FOO='a b' python t.py": ("env FOO='a b' python t.py", "one word"),
    "(venv) $ python t.py": ("Write: python t.py", "sh -c"),
    "(base) ada@host:~$ python t.py --lr 1": ("Write: python t.py --lr 1", "sh -c"),
    "python t.py\n  --epochs 10": ("read as a blank", "sh -c"),
}


@pytest.mark.parametrize("line", RIGHT_LINE)
def test_no_hint_leads_to_a_line_that_fails_or_is_refused(line: str) -> None:
    right, wrong = RIGHT_LINE[line]
    (told,) = typed_hints(
        line, is_allowed=lambda name: name not in {"CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH"}
    )
    assert right in told
    assert wrong not in told


# Words with a variable -> the arguments that a shell passes on where LR is "xy".
SCRIPTS: dict[tuple[str, ...], list[str]] = {
    ("printf", "%s\n", "print('$LR')"): ["print('xy')"],
    ("printf", "%s\n", "--x", 'a"b $LR'): ["--x", 'a"b xy'],
    ("printf", "%s\n", "a\\b`$LR", "$(echo hi)"): ["a\\b`xy", "hi"],
    ("A=b c", "printf", "%s\n", "$LR $5", "$(echo 'a  b')"): ["xy $5", "a", "b"],
    ("printf", "%s\n", "$LR", "two words"): ["xy", "two words"],
}


@pytest.mark.parametrize("words", SCRIPTS)
def test_the_script_of_words_passes_them_on_with_their_variables(words: tuple[str, ...]) -> None:
    hint = " ".join(word_hints(words))
    line = shlex.split(hint.partition("For a shell, write: ")[2])
    env = {"PATH": "/usr/bin:/bin", "LR": "xy"}
    done = subprocess.run(line[:3], env=env, capture_output=True, check=True, timeout=20)
    assert done.stdout.decode().splitlines() == SCRIPTS[words]


WORDS: dict[tuple[str, ...], str] = {
    ("cd", "src", "&&", "python", "t.py"): "sh -c 'cd src && python t.py'",
    ("python t.py --lr 1",): "one by one: python t.py --lr 1",
    ("python", "t.py", "--lr", "$LR"): "sh -c 'python t.py --lr $LR'",
    ("python", "t.py", "a b", "2>&1"): "sh -c ",
    ("python", "-u", "a b.ipynb"): "jupyter nbconvert --to notebook --execute 'a b.ipynb'",
    ("python", "C:\\x\\t.py"): "path of Windows",
    ("CUDA_VISIBLE_DEVICES=0", "python", "t.py"): "env CUDA_VISIBLE_DEVICES=0 python t.py",
    ("export", "A=1;", "python", "t.py"): "sh -c 'export A=1; python t.py'",
    ("python", "t.py", "\u2014epochs"): "--epochs",
}


@pytest.mark.parametrize("words", WORDS)
def test_words_get_the_same_hints(words: tuple[str, ...]) -> None:
    assert WORDS[words] in " ".join(word_hints(words))


@pytest.mark.parametrize("words", [(), ("",), ("x" * 70_000, "$A" * 20_000), ("\u2014" * 30_000,)])
def test_no_command_is_too_odd(words: tuple[str, ...]) -> None:
    assert sum(map(len, word_hints(words))) < 4_000


@pytest.mark.parametrize("words", [("a=" * 2000, "&&", "x"), ("a=" * 2000,)])
def test_a_name_that_is_given_a_name_for_long_is_read_to_its_end(words: tuple[str, ...]) -> None:
    assert len(list(word_hints(words))) <= 1


@pytest.mark.parametrize("line", ["$ \u00a0", "> \u3000", "(venv) $ \u00a0"])
def test_a_prompt_with_nothing_behind_it_is_none(line: str) -> None:
    assert not [hint for hint in typed_hints(line) if "prompt" in hint]
