"""The pages of the codes that are errors: `vitals check --explain CODE` prints them."""

from __future__ import annotations

PAGES: dict[str, str] = {
    "V000": "The sentence does not fit the language at this place, and nothing more precise could be said.\n\n"
    "Not so:  when loss > 3 3 -> red\nBut so:  when loss > 3 -> red",
    "V001": "A duration is a number and a unit: steps, samples, epochs, tokens, s, min, h, d. 20 steps and 20 logged\n"
    "points differ as soon as a metric is not logged every step.\n\n"
    "Not so:  when loss > 3 for 20 -> red\nBut so:  when loss > 3 for 20 steps -> red",
    "V002": "A number stands where a condition belongs, or the other way round.\n\n"
    "Not so:  when loss -> red\nBut so:  when loss > 3 -> red",
    "V003": "Units never convert into one another by themselves.\n\n"
    "Not so:  when step > 5 min -> red\nBut so:  when elapsed > 5 min -> red",
    "V005": "An operator is spelt otherwise here; a verb is none.\n\nNot so:  when a => 3 && b = 2 -> red\nBut so:  when a >= 3 and b == 2 -> red",
    "V006": "A word of the language cannot be a bare metric name, since sentences with it would read otherwise.\n\n"
    'Not so:  when for > 3 -> red\nBut so:  when "for" > 3 -> red',
    "V009": "A number is too large for a 64-bit float.\n\nNot so:  when loss > 1e999 -> red\nBut so:  when loss is inf -> red",
    "V010": 'A name or a message is empty or too long.\n\nNot so:  when "" > 3 -> red\nBut so:  when "mem (GB)" > 3 -> red',
    "V011": "A count that can never be reached.\n\nNot so:  when loss > 3 for 5 of 3 samples -> red\n"
    "But so:  when loss > 3 for 3 of 5 samples -> red",
    "V012": "A rung leads up; green is where a rule comes back to by itself.\n\nNot so:  when loss < 1 -> green\n"
    "But so:  rule r { when loss > 3 -> yellow clear when loss < 1 }",
    "V013": "A value in a message is not written right. Braces themselves are written `{{` and `}}`.\n\n"
    'Not so:  because "loss is {loss:.2q}"\nBut so:  because "loss is {loss:.2f}"',
    "V014": "Something that can be said once is said twice.\n\nNot so:  cooldown 5 steps cooldown 9 steps\nBut so:  cooldown 9 steps",
    "V015": "The file is of another version of the language.\n\nNot so:  vitals 2\nBut so:  vitals 1",
    "V016": "Several points of one step are reduced to the last, mean, max or min.\n\n"
    'Not so:  metric loss = "loss" reduce median\nBut so:  metric loss = "loss" reduce mean',
    "V017": "The non-finite guard acts at once.\n\nNot so:  nonfinite -> red after 5 steps\nBut so:  nonfinite -> red",
    "V018": "A `when` leads to a level by an arrow.\n\nNot so:  when loss > 3 red\nBut so:  when loss > 3 -> red",
    "V020": 'A text ends on its own line.\n\nNot so:  because "too high\nBut so:  because "too high"',
    "V021": "Texts and odd names stand in plain double quotes.\n\nNot so:  when 'a b' > 3 -> red\nBut so:  when \"a b\" > 3 -> red",
    "V022": "Each bracket has its partner.\n\nNot so:  when (loss > 3 -> red\nBut so:  when (loss > 3) -> red",
    "V023": "Levels are yellow, orange and red (warning, critical and fatal are read as these).\n\n"
    "Not so:  when loss > 3 -> amber\nBut so:  when loss > 3 -> yellow",
    "V024": "A comment begins with `#` and ends with its line.\n\nNot so:  // why\nBut so:  # why",
    "V025": "A product is written with `*`. `a/b` is a metric's name; division has white space after the `/`.\n\n"
    "Not so:  when (a + b)/2 > 80% of c -> red\nBut so:  when (a + b) / 2 > 80% * c -> red",
    "V026": "Numbers are written 0.5, 1000, 20k, 1e-4, 30%.\n\nNot so:  when loss > 1,000 -> red\nBut so:  when loss > 1000 -> red",
    "V027": "A statement, or a part of a rule, begins with a word that is none.\n\nNot so:  wen loss > 3 -> red\n"
    "But so:  when loss > 3 -> red",
    "V028": 'A name is one word: here two stand side by side.\n\nNot so:  when grad norm > 3 -> red\nBut so:  when "grad norm" > 3 -> red',
    "V029": "A sign that does not belong here.\n\nNot so:  when loss > 3 -> red;\nBut so:  when loss > 3 -> red",
    "V030": "A policy has at most 2 million characters, 400,000 words and signs, and 10,000 statements; with all that it uses, 100 files.",
    "V031": "The file is not UTF-8 text.",
    "V032": "An expression is nested more than 60 deep, one of its chains has more than 5,000 parts, or it goes through more than"
    " 100 definitions, each made of the one before (or 250 parts, written out). Name its parts"
    " with `let` and `event`.",
    "V033": "Functions are written small, with the bracket right behind.\n\nNot so:  Mean (loss, 5 steps)\nBut so:  mean(loss, 5 steps)",
    "V034": "Something that belongs here is missing.\n\nNot so:  when missing loss -> red\nBut so:  when missing loss for 100 steps -> red",
    "V035": "A value or a condition is missing.\n\nNot so:  when loss > -> red\nBut so:  when loss > 3 -> red",
    "V036": "The sentence breaks off.\n\nNot so:  let gap\nBut so:  let gap = val_loss - loss",
    "V040": "There is no such function; `vitals functions` lists them.\n\nNot so:  maen(loss, 5 steps)\nBut so:  mean(loss, 5 steps)",
    "V041": "A function takes other arguments; `vitals functions NAME` shows its page.\n\nNot so:  mean(loss)\nBut so:  mean(loss, 5 steps)",
    "V042": "`baseline(500)` is about the one bare metric on the other side of the comparison; else it must say.\n\n"
    "Not so:  when a + b > 3 * baseline(500) -> red\nBut so:  when a + b > 3 * baseline(a + b, 500 steps) -> red",
    "V043": "A family is many metrics: it stands in a function over members, in `each`, or in a let family.\n\n"
    "Not so:  when act/layer_* > 5 -> red\nBut so:  when any(act/layer_* > 5) -> red",
    "V044": "In a let nothing says what freezes a reference.\n\nNot so:  let n = usual(loss, 50 steps)\n"
    "But so:  let n = usual(loss, 50 steps, unless: spike)",
    "V045": "`surely(c)` is false where c is unknown: alone it would hide that nothing is known.\n\n"
    "Not so:  when surely(loss > 3) -> red\nBut so:  when loss > 3 -> red",
    "V046": "A sequence stands at the top of a condition, or in parentheses.\n\n"
    "Not so:  when x > 2 and not a then b within 5 steps -> red\nBut so:  when x > 2 and not (a then b within 5 steps) -> red",
    "V047": "`is nan` and `missing` look at the points of a metric.\n\nNot so:  when mean(loss, 5 steps) is nan -> red\n"
    "But so:  when loss is nan -> red",
    "V048": "A length must be more than nothing, and steps and samples are whole.\n\nNot so:  for 0 steps\nBut so:  for 1 steps",
    "V050": "The file is not readable YAML 1.2.",
    "V051": "A key that the YAML form does not know; the message names the nearest.",
    "V052": "A key stands twice in one place: YAML would keep only one of them.",
    "V053": "A key holds something of another shape than it takes.\n\nNot so:  when: loss > 3\n"
    "But so:  when: [{if: loss > 3, level: red}]",
    "V054": "Anchors and aliases repeat parts out of sight (and can make a small file huge): write the part out.",
    "V055": "A `!tag` gives a value a type; a policy has none.",
    "V056": "The YAML is larger or deeper than any policy needs.",
    "V057": "A key that has to be there is missing.\n\nNot so:  when: [{level: red}]\nBut so:  when: [{if: loss > 3, level: red}]",
    "V058": "A key takes true or false, or a level. YAML 1.2 knows no `yes`, `no`, `on` or `off` but as words.",
    "V059": "One policy a file: a second `---` begins another document.",
    "V060": "This is no name, or no family, of the language.",
    "V070": "No pack of that name is installed; `vitals packs` lists them.",
    "V071": "A file cannot be read.",
    "V072": "A rule file reaches packs and files of its own folder, nothing else.\n\n"
    'Not so:  use "../team.vitals"\nBut so:  use "team.vitals"',
    "V073": (
        'A date is written "2027-01-15".'
        '\n\nNot so:  disable r because "noisy" until "soon"\nBut so:  disable r because "noisy" until "2027-01-15"'
    ),
    "V080": "There is no action of that name.\n\nNot so:  -> red do rolback\nBut so:  -> red do rollback(lr: 90%)",
    "V081": "An action is given an argument that it does not take, or lacks one that it needs.\n\n"
    "Not so:  -> red do lr(50%)\nBut so:  -> red do lr(factor: 50%)",
    "V082": "The argument of an action is of another kind, or out of range. Channels and requests are names from your "
    "own configuration, never an address or a command.\n\n"
    "Not so:  -> red do rollback(lr: 90)\nBut so:  -> red do rollback(lr: 90%)",
    "V083": "One step asks for one of pause, rollback and stop: of two in one `do` the weightier is asked for.\n\n"
    "Not so:  -> red do pause, stop\nBut so:  -> red do stop",
    "V084": "A cooldown and a limit are lengths in steps, epochs or tokens, or times.\n\n"
    "Not so:  limit rollback 3 per 10 samples\nBut so:  limit rollback 3 per 10000 steps",
    "V074": "A policy cannot be had from where it is kept: a commit, a run, an artifact, a registry. The message says why.",
    "V075": (
        "A part of a series in a test is none. A part is `1.0 x500`, `3->1 x50`, `2 x100 ~0.1`, `nan`, `gap x10`,\n"
        "`dup 2` or `@2000: 1`; commas stand between, and steps only go up."
        '\n\nNot so:  series: {loss: "3->1, 2 x0"}\nBut so:  series: {loss: "3->1 x50, 2"}'
    ),
    "V076": (
        "A test says something that cannot be: a step that is none, two tests of one name, both a series and a run."
        "\n\nNot so:  expect: [{steps: 520..500, rule: r, to: red}]\n"
        "But so:  expect: [{steps: 500..520, rule: r, to: red}]"
    ),
    "V077": "A lock beside a policy pins what it uses: each file and pack by the digest of its meaning. Something there means\n"
    "something else now, so the policy would judge otherwise than when it was last looked at. See what changed (`git diff`,\n"
    "`vitals policy diff`), then write the lock again: `vitals policy lock FILE`. Looks and comments change no digest.",
    "V085": (
        "A series of a test goes by the name that the run logs, not by the policy's own name for it. One that nothing\n"
        "reads would leave the rules without data, and the test would pass for nothing."
        '\n\nNot so:  metric loss = "train/loss" … series: {loss: "1 x20"}\n'
        'But so:  metric loss = "train/loss" … series: {"train/loss": "1 x20"}'
    ),
    "V086": (
        "A recorded run stands where a policy belongs. The policy comes first, the runs after it."
        "\n\nNot so:  vitals replay log.jsonl spikes.vitals\nBut so:  vitals replay spikes.vitals log.jsonl"
    ),
    "V310": 'Two files define one name, or set one thing (a level, a limit, the guard, the axis) in two ways.\n\nNot so:  use "a.vitals" use "b.vitals"\nBut so:  use "a.vitals" as a use "b.vitals" as b',
    "V311": (
        "There is no param (or profile) of that name."
        "\n\nNot so:  param k = 3 profile p { kk = 2 }\nBut so:  param k = 3 profile p { k = 2 }"
    ),
    "V312": (
        "A param is set to a value of another kind: a length param takes a length of its own unit."
        "\n\nNot so:  param k = 3 profile p { k = 2 steps }\nBut so:  param k = 3 profile p { k = 2 }"
    ),
    "V313": "A name has two meanings.\n\nNot so:  let a = x let a = y\nBut so:  let a = x let b = y",
    "V314": "A name that has to be defined is not.\n\nNot so:  when loss > 3 for confirm -> red\n"
    "But so:  param confirm = 20 steps when loss > 3 for confirm -> red",
    "V315": "An event (or a metric) is needed here.\n\nNot so:  when since(loss) > 5 -> red\n"
    "But so:  event spike = loss > 3 when since(spike) > 5 -> red",
    "V317": (
        "The run's own counters (step, progress, elapsed, epoch, tokens) cannot be redefined, but for their metric."
        "\n\nNot so:  let step = 3 * x\nBut so:  let tripled = 3 * x"
    ),
    "V405": (
        "Rules that inhibit each other in a circle would silence each other."
        "\n\nNot so:  rule a { … inhibits b } rule b { … inhibits a }\nBut so:  rule a { … inhibits b }"
    ),
    "V408": "A ladder begins without `after`; each later rung says how much later, in one unit, and leads higher.\n\n"
    "Not so:  -> red -> orange after 5 steps\nBut so:  -> orange -> red after 5 steps",
    "V501": "A sequence needs a bound, or it would wait for ever.\n\nNot so:  when a then b -> red\nBut so:  when a then b within 50 steps -> red",
    "V503": (
        "An override or a disable names no rule, or two overrides set one field."
        "\n\nNot so:  override core.spkie { cooldown 50 steps }\nBut so:  override core.spike { cooldown 50 steps }"
    ),
    "V504": "A param's value is outside its range.\n\nNot so:  param k = 12 in 1 .. 10\nBut so:  param k = 3 in 1 .. 10",
    "V507": (
        "Lets, events and phases cannot depend on themselves, nor files use themselves."
        "\n\nNot so:  let a = b let b = a + 1\nBut so:  let a = x let b = a + 1"
    ),
    "V603": (
        "A comment or a disable that silences has expired, or silences nothing. It is written\n"
        "`# vitals: off V104 until 2027-01-15 because …`."
        "\n\nNot so:  # vitals: off V215\nBut so:  # vitals: off V215 until 2027-01-15 because the curve is known"
    ),
    "V606": (
        "A test expects nothing, and nothing could come: no condition was known at any step. Give the series more\n"
        "points than the longest window takes, or look for a metric's name that is spelt otherwise."
        '\n\nNot so:  series: {loss: "9 x3"}  # under a window of 500 steps\nBut so:  series: {loss: "2 x600"}'
    ),
}
