"""Random policies that the grammar accepts: every statement, every operator, odd spacing, comments anywhere."""

from __future__ import annotations

from hypothesis import strategies as st

from vitalsdsl.ground.quoting import quoted

Text = st.SearchStrategy[str]

NUMBERS = st.sampled_from(["0", "1", "3", "2.5", "1e-4", "20k", "1.5B", "30%", "0.1%", "1E+3", "007"])
COUNTS = st.sampled_from(["1", "3", "20", "1k", "2.0"])
UNITS = st.sampled_from(["step", "steps", "sample", "samples", "epochs", "tokens", "s", "min", "h", "d"])
NAMES = st.sampled_from(["loss", "train/loss", "a.b", "grad_norm", "_x", "spike", "lr", "e1"])
QUOTED = st.sampled_from(
    [
        '"mem/reserved (GB)"',
        '"step"',
        '"when"',
        '"größe #1"',
        '"a:b"',
        '"it\'s {x}"',
        '"act/*"',
        r'"say \"x\""',
        r'"a\\"',
    ]
)
FAMILIES = st.sampled_from(["act/layer_*", "act/*/absmax", "grad/{0..3}", "x/layer_{0..12}/y"])
COMPARES = st.sampled_from([">", "<", ">=", "<=", "==", "!="])
TEXTS = st.text(
    st.characters(blacklist_characters='\n{}\0', blacklist_categories=("Cs",)), max_size=12
).map(quoted)  # fmt: skip
LEVELS = st.sampled_from(["yellow", "orange", "red", "warning", "critical", "fatal"])
TARGETS = NAMES | QUOTED
DURATIONS = st.builds("{} {}".format, COUNTS, UNITS) | st.sampled_from(["lag", "confirm"])
SPANS = (
    DURATIONS
    | st.builds("{} and {}".format, DURATIONS, DURATIONS)
    | st.sampled_from(["1 of 1 sample", "3 of 5 samples"])
)  # fmt: skip
FOR = st.just("") | SPANS.map(" for {}".format)
VALUES = NUMBERS | NUMBERS.map("-{}".format) | st.builds("{}{}".format, COUNTS, UNITS.map(" {}".format))


def _sums(inner: Text) -> Text:
    """Numbers, tightest first, each in parentheses where the grammar needs them and sometimes where it does not."""
    loose = inner.map("({})".format)
    return st.one_of(
        st.builds("{}{}{}".format, loose, st.sampled_from([" + ", "-", "*", " / "]), loose),
        loose.map("-{}".format),
        st.builds("{} before {}".format, loose, DURATIONS),
        st.builds("{} at step {}".format, loose, COUNTS),
        st.builds("{} at {}".format, loose, NAMES.filter(lambda n: n not in ("end", "step"))),
        st.builds("{} at end of {}".format, loose, NAMES),
        st.builds("{}({},{})".format, st.sampled_from(["mean", "usual", "delta", "ema"]), inner, COUNTS | DURATIONS),
        st.builds("usual({}, 5 samples, unless:{})".format, inner, NAMES),
        st.builds("baseline(500,from: {} ,by: median)".format, COUNTS),
        st.builds("clamp({} , 0, 1)".format, inner),
        st.builds("{} + 1 * {}".format, loose, loose),
    )


ATOMS = st.one_of(NUMBERS, TARGETS, FAMILIES, st.builds("{} {}".format, COUNTS, UNITS))
SUMS = st.recursive(ATOMS, _sums, max_leaves=6)


def _conditions(inner: Text) -> Text:
    loose = inner.map("({})".format)
    return st.one_of(
        st.builds("{} and {}".format, loose, loose),
        st.builds("{} or {}".format, loose, loose),
        st.builds("{} and {} or {}".format, loose, loose, loose),
        loose.map("not {}".format),
        loose.map("not not {}".format),
        st.builds("({}{})".format, loose, SPANS.map(" for {}".format)),
        st.builds("2 of ({},{}, {})".format, inner, loose, inner),
        st.builds("({} then {} within {})".format, loose, loose, DURATIONS),
        st.builds("({} then no {} within {})".format, loose, loose, DURATIONS),
        st.builds("any({}{})".format, inner, FOR),
        st.builds("fraction({}, {}) > 1".format, inner, DURATIONS),
    )


PREDICATES = st.one_of(
    st.builds("{} {} {}".format, SUMS, COMPARES, SUMS),
    st.builds("{}<{}<= {}".format, SUMS, SUMS, SUMS),
    st.builds("{} is {}{}".format, SUMS, st.sampled_from(["", "not "]), st.sampled_from(["nan", "inf", "finite"])),
    st.builds("missing {} for {}".format, TARGETS, DURATIONS),
    DURATIONS.map("stalled for {}".format),
    TARGETS,
)
CONDITIONS = st.recursive(PREDICATES, _conditions, max_leaves=5)
ARGUMENTS = VALUES | TEXTS | NAMES
ACTIONS = st.one_of(
    st.sampled_from(["alert", "tag", "pause", "stop()"]),
    st.builds("rollback( lr :{}, {})".format, VALUES, ARGUMENTS),
    st.builds("notify({})".format, TEXTS),
)
DO = st.just("") | st.lists(ACTIONS, min_size=1, max_size=3).map(lambda a: " do " + ",".join(a))
RUNGS = st.builds("->{}{}{}".format, LEVELS, st.just("") | DURATIONS.map(" after {}".format), DO)
CLAUSES = st.builds(
    "when {}{}{} {}".format,
    CONDITIONS, FOR, st.just("") | TARGETS.map(" on {}".format), st.lists(RUNGS, min_size=1, max_size=3).map(" ".join),
)  # fmt: skip
TEMPLATES = st.sampled_from(
    ['"plain"', '"{loss:.2f}{{x}}"', '"a {loss/ baseline(loss,500):.1f}x # b"', '"{usual(loss,5,unless:spike)}"', '""']
)
PARTS = st.fixed_dictionaries({}, optional={
    "clear": st.builds("clear when {}{}".format, CONDITIONS, FOR) | SPANS.map("clear for {}".format),
    "cooldown": DURATIONS.map("cooldown {}".format),
    "inhibits": st.lists(TARGETS, min_size=1, max_size=3).map(lambda t: "inhibits " + ", ".join(t)),
    "unknown": st.sampled_from(["unknown hold", "unknown reset"]),
    "because": TEMPLATES.map("because {}".format),
    "try": st.lists(TEXTS, min_size=1, max_size=2).map(lambda t: "try " + ",".join(t)),
    "owner": TEXTS.map("owner {}".format),
    "runbook": TEXTS.map("runbook {}".format),
    "shadow": st.just("shadow"),
    "disabled": st.just("disabled"),
})  # fmt: skip
GAPS = st.sampled_from(["\n", "\n\n", "\n\n\n   ", " # beside\n", "\n# above\n", "\n\n  # one\n\n# two\n", "#x\n#y\n"])


@st.composite
def bodies(draw: st.DrawFn) -> str:
    parts = [*draw(st.lists(CLAUSES, min_size=1, max_size=3)), *draw(PARTS).values()]
    return "".join(part + draw(GAPS) for part in draw(st.permutations(parts)))


BLOCKS = bodies().map(" {{{}}}".format)
METRIC_PARTS = st.fixed_dictionaries({}, optional={
    "every": DURATIONS.map(" every {}".format),
    "stale": DURATIONS.map(" stale after {}".format),
    "unit": TEXTS.map(" unit {}".format),
    "reduce": st.sampled_from([" reduce max", " reduce last"]),
    "optional": st.just(" optional"),
    "allow": st.just(" allow nonfinite"),
}).map(lambda parts: "".join(parts.values()))  # fmt: skip
LISTS = st.lists(TEXTS, min_size=1, max_size=3).map(",".join)
SETTINGS = st.lists(st.builds("{}={}".format, NAMES, VALUES), min_size=1, max_size=3)
SCOPES = st.sampled_from(["", " in phase startup", " each m in act/layer_*", " in phase a, b each m in g/{0..3}"])
STATEMENTS = st.one_of(
    st.builds("use {}{}{}".format, TEXTS, st.sampled_from(["", " as core"]),
              st.just("") | SETTINGS.map(lambda s: " with " + ",".join(s))),
    TEXTS.map("axis {}".format),
    st.builds("metric {}={}{}".format, TARGETS | FAMILIES, LISTS, METRIC_PARTS),
    st.builds("param {}={}{}".format, NAMES, VALUES, st.just("") | st.builds(" in {} ..{}".format, VALUES, VALUES)),
    st.builds("let {} = {}{}".format, NAMES | FAMILIES, SUMS, st.just("") | TARGETS.map(" on {}".format)),
    st.builds("event {}= {}{}{}".format, NAMES, CONDITIONS, FOR, st.just("") | DURATIONS.map(" apart {}".format)),
    st.builds("phase {} ={}".format, NAMES, CONDITIONS),
    st.builds("level {} do {}".format, LEVELS | st.just("ok"), ACTIONS),
    st.builds("limit {} {} per {}".format, NAMES, COUNTS, DURATIONS),
    st.builds("nonfinite ->{}{}".format, LEVELS, DO) | st.just("nonfinite off"),
    CLAUSES,
    st.builds("rule {}{}{}{}".format, NAMES, st.just("") | TEXTS.map(" {}".format), SCOPES, BLOCKS),
    st.builds("override {}{}".format, TARGETS, BLOCKS),
    st.builds("disable {} because {}{}".format, TARGETS, TEXTS, st.sampled_from(["", ' until "2027-01-15"'])),
    st.builds("profile {}{{{}}}".format, NAMES, SETTINGS.map(" ".join)),
)  # fmt: skip
HEADS = st.sampled_from(["", "vitals 1\n", "# top\nvitals 1 policy p\n", '\n\n# x\n\npolicy p "a title"#y\n'])


@st.composite
def policies(draw: st.DrawFn) -> str:
    """The text of a policy. Its names may mean nothing: the language's grammar is all that it obeys."""
    statements = draw(st.lists(STATEMENTS, max_size=6))
    return draw(HEADS) + "".join(statement + draw(GAPS) for statement in statements)
