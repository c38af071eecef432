"""Renders small templates with jinja2 in the environment of transformers. Writes jinja2.json, the
expected output of our engine.

    pip install jinja2==3.1.6 && TZ=UTC python3 jinja2.py

A case is [template, output], or [template, null] if jinja2 refuses it. All cases have the variables
below and a fixed clock.
"""

import json
import re
import sys
from datetime import datetime
from pathlib import Path

# Otherwise this file would be imported as jinja2.
if __name__ == "__main__":
    sys.path.pop(0)

import jinja2  # noqa: E402
import jinja2.ext  # noqa: E402
from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: E402

VARIABLES = {
    "name": "Ada",
    "text": "  Grüße, <b>World</b> & \"all\" it's \n",
    "emoji": "a👋b",
    "empty": "",
    "none": None,
    "no": False,
    "yes": True,
    "one": 1,
    "pi": 3.14159,
    "big": 1e22,
    "numbers": [3, 1, 2],
    "words": ["banana", "Apple", "cherry", "apple"],
    "nested": [[1, [2]], [3, []], [1, [2]]],
    "users": [
        {"name": "Ada", "age": 36, "city": {"name": "London", "zip": [1, 2]}, "active": True},
        {"name": "bob", "age": 25, "city": {"name": "oslo", "zip": [3, 4]}, "active": False},
        {"name": "Cyd", "age": 36, "city": {"name": "Oslo", "zip": [5]}, "active": True},
    ],
    "partial": [{"a": 1}, {"b": 2}, {"a": None}],
    "d": {"b": 2, "A": 1, "c": None, "items": "mine"},
    "tree": [{"v": 1, "c": [{"v": 2, "c": [{"v": 3}]}, {"v": 4}]}, {"v": 5}],
    "floats": [1.5, -0.0, 1e16, 1e-5, 123456789.125],
    "messages": [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, 2.5, "é\"<\n"]}}}]},
    ],
}
NOW = datetime(2025, 3, 4, 15, 6, 7, 89000)


class Generation(jinja2.ext.Extension):
    """The extension of transformers, without its tracking."""

    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_support"), [], [], body).set_lineno(lineno)

    def _support(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class TemplateDict:
    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)

    def fromkeys(self, *args, **kwargs):
        return dict.fromkeys(*args, **kwargs)


class TemplateNamespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attrs = dict(*args, **kwargs)
        for name in attrs:
            TemplateNamespace._check_name(name)
        jinja2.utils.Namespace.__init__(self, attrs)

    def __setitem__(self, name, value):
        TemplateNamespace._check_name(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def _check_name(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(name)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["dict"] = TemplateDict()
    env.globals["namespace"] = TemplateNamespace
    env.globals["strftime_now"] = lambda text: NOW.strftime(text)
    return env


def render(env, template):
    try:
        return env.from_string(template).render(json.loads(json.dumps(VARIABLES)))
    except Exception:  # engines must agree on refusing, not on the error
        return None


def cases_of(line):
    """Cases of a line: one per expression if the line has only expressions, else the whole line."""
    if "{%" in line or "{#" in line:
        return [line]
    parts = re.split(r"(?<=}})\|(?={{)|(?<=}}])\|(?=\[{{)", line)
    # Parts that are not whole expressions belong together.
    return parts if all(re.fullmatch(r"\[?{{.*}}]?", part, re.S) for part in parts) else [line]


def main():
    here = Path(__file__).parent
    groups = {}
    for line in (here / "jinja2-cases.txt").read_text(encoding="utf8").splitlines():
        if line.startswith("## "):
            group = groups.setdefault(line[3:], [])
        elif line:
            # Visible signs stand for line ends and tabs.
            line = line.replace("⏎", "\n").replace("⇥", "\t").replace("␍", "\r")
            group.extend([template, render(environment(), template)] for template in cases_of(line))
    written = {"jinja2": jinja2.__version__, "now": NOW.isoformat(), "variables": VARIABLES, "cases": groups}
    (here / "jinja2.json").write_text(json.dumps(written, ensure_ascii=False, indent=1) + "\n", encoding="utf8")
    print(sum(map(len, groups.values())), "cases,", sum(out is None for g in groups.values() for _, out in g), "refused")


if __name__ == "__main__":
    main()
