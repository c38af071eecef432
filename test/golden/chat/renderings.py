"""Renders whole templates with jinja2 as jinja2.py does. Writes renderings.json: a hash for each
template and conversation.

    node renderings.mjs | TZ=UTC python3 renderings.py FOLDER...    # folders of *.jinja files

A conversation's hash is that of all its renderings as a JSON list, with null for refused ones.
"""

import hashlib
import importlib.util
import json
import sys
from pathlib import Path

here = Path(__file__).parent
# Otherwise jinja2.py of this folder would be imported as jinja2.
sys.path.pop(0)
spec = importlib.util.spec_from_file_location("environment_of_transformers", here / "jinja2.py")
transformers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(transformers)

from jinja2 import Undefined  # noqa: E402
from jinja2.sandbox import SandboxedEnvironment  # noqa: E402


def as_list(value):
    if isinstance(value, Undefined):
        raise TypeError("undefined")
    return list(value)


def environment():
    """The environment of transformers, with our engine's differences (test/chat/jinja2.test.ts has the reasons)."""
    env = transformers.environment()
    # Lists can grow: Kimi K2's template appends to them.
    env.is_safe_attribute = lambda obj, name, value: SandboxedEnvironment.is_safe_attribute(env, obj, name, value)
    # Generators and views count as lists: DeepSeek R1's template needs it.
    env.filters["tojson"] = lambda x, ensure_ascii=False, **more: json.dumps(x, ensure_ascii=ensure_ascii, default=as_list, **more)
    # There is no automatic escaping, so `safe` is the identity (Functionary's template uses it).
    env.filters["safe"] = lambda text: text
    # Not a filter of jinja2; templates like DeepSeek's parse arguments with it.
    env.filters["from_json"] = json.loads
    return env


def rendered(template, variables):
    try:
        return template.render(json.loads(json.dumps(variables)))
    except Exception:
        return None


def main():
    conversations = json.load(sys.stdin)
    hashes = {}
    for path in sorted(path for folder in sys.argv[1:] for path in Path(folder).glob("*.jinja")):
        template = environment().from_string(path.read_text(encoding="utf8"))
        hashes.setdefault(path.stem, {})
        for name, all in conversations.items():
            texts = [rendered(template, variables) for variables in all]
            written = json.dumps(texts, ensure_ascii=False, separators=(",", ":"))
            hashes[path.stem][name] = hashlib.sha256(written.encode()).hexdigest()[:12]
    (here / "renderings.json").write_text(json.dumps(hashes, indent=1) + "\n", encoding="utf8")
    print(len(hashes), "templates,", len(conversations), "conversations")


main()
