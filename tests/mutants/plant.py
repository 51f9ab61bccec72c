#!/usr/bin/env python3
"""Writes mutants into the C sources of a copy of the tree: small changes, each of which acts only
when its number is chosen at run time (mutant.h).

    plant.py TREE BUILD SEED PER_1000_LINES [PATH...]

BUILD has compile_commands.json; its sources are those below TREE. SEED and PER_1000_LINES choose the
places. PATH, relative to TREE: only files whose path begins so. Needs clang.cindex, e.g. the package
libclang 14 of PyPI, and clang's own headers. Writes BUILD/mutants.json: id, file, line, kind, what.

Left alone: constants that the compiler needs (cases, array lengths, static values), macros and
their arguments but TRY(...), headers.
"""
import glob
import json
import os
import random
import re
import subprocess
import sys

from clang.cindex import CursorKind, Index, StorageClass, TranslationUnit, TypeKind

# How often a kind is drawn beside the others.
WEIGHTS = {
    "comparison": 3, "deletion": 3, "swap": 3, "logic": 2.5, "return": 2.5, "arithmetic": 2, "jump": 2,
    "constant": 1.5, "member": 1.5, "negation": 1.5, "variable": 1, "try": 1,
}
COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
ARITHMETIC = {"+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "&": "|", "|": "&", "<<": ">>", ">>": "<<"}
ARRAYS = (TypeKind.CONSTANTARRAY, TypeKind.VARIABLEARRAY, TypeKind.INCOMPLETEARRAY)
STATEMENTS = (
    CursorKind.CALL_EXPR, CursorKind.BINARY_OPERATOR, CursorKind.COMPOUND_ASSIGNMENT_OPERATOR,
    CursorKind.UNARY_OPERATOR, CursorKind.CSTYLE_CAST_EXPR, CursorKind.UNEXPOSED_EXPR,
)


def begin_of(cursor):
    return cursor.extent.start.offset


def end_of(cursor):
    return cursor.extent.end.offset


def type_of(cursor):
    return cursor.type.get_canonical().spelling


class Places:
    """The places of one file at which a mutant can be, each with its edits (begin, end, text)."""

    def __init__(self, path, arguments, drawn):
        self.path = path
        self.drawn = drawn
        with open(path, "rb") as file:
            self.source = file.read()
        self.unit = Index.create().parse(
            path, args=arguments, options=TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD)
        self.found = []
        self.macros = [
            (begin_of(c), end_of(c), c.spelling) for c in self.unit.cursor.get_children()
            if c.kind == CursorKind.MACRO_INSTANTIATION and self.is_here(c)]
        for begin, end, name in self.macros:
            if name == "TRY":
                self.leave_out("try", begin, end, self.source[:begin].count(b"\n") + 1)
        for cursor in self.unit.cursor.get_children():
            if cursor.kind == CursorKind.FUNCTION_DECL and self.is_here(cursor) and cursor.is_definition():
                self.walk(cursor, cursor, False)

    def is_here(self, cursor):
        return cursor.location.file is not None and cursor.location.file.name == self.path

    def in_macro(self, begin, end):
        return any(b < end and begin < e and not (begin <= b and e <= end) for b, e, _ in self.macros)

    def text(self, begin, end):
        return self.source[begin:end].decode("utf8", "replace")

    def text_of(self, cursor):
        return self.text(begin_of(cursor), end_of(cursor))

    def add(self, kind, begin, end, edits, what, line):
        self.found.append({
            "kind": kind, "begin": begin, "end": end, "edits": edits, "what": what, "line": line})

    def leave_out(self, kind, begin, end, line):
        semicolon = re.match(rb"\s*;", self.source[end:end + 4])
        if semicolon:
            edits = [(begin, begin, "{ if (!mutant(ID)) "), (end, end + semicolon.end(), "; }")]
            self.add(kind, begin, end, edits, "left out: " + self.text(begin, end), line)

    def add_statement(self, cursor):
        begin, end, line = begin_of(cursor), end_of(cursor), cursor.extent.start.line
        text = self.text(begin, end)
        if self.in_macro(begin, end):
            return
        if cursor.kind in STATEMENTS:
            self.leave_out("deletion", begin, end, line)
        elif cursor.kind in (CursorKind.BREAK_STMT, CursorKind.CONTINUE_STMT):
            self.leave_out("jump", begin, end, line)
        elif text in ("return true", "return false"):
            value = "!mutant(ID)" if text == "return true" else "mutant(ID)"
            self.add("return", begin, end, [(begin, end, "return " + value)], "the other: " + text, line)

    def add_operator(self, cursor, left, right):
        begin, end, line = begin_of(cursor), end_of(cursor), cursor.extent.start.line
        between = (end_of(left), begin_of(right))
        op = re.sub(r"/\*.*?\*/|//.*", "", self.text(*between)).strip()
        other, kind = COMPARISONS.get(op), "comparison"
        if op in ARITHMETIC and TypeKind.POINTER not in (left.type.kind, right.type.kind):
            other, kind = ARITHMETIC[op], "arithmetic"
        if other is not None:
            edits = [(begin, begin, "MUTANT_OPERATOR(ID, "), (*between, f", {op}, {other}, "), (end, end, ")")]
            self.add(kind, begin, end, edits, f"{op} as {other}: " + self.text(begin, end), line)
        elif op in ("&&", "||"):
            name = "MUTANT_AND" if op == "&&" else "MUTANT_OR"
            edits = [(begin, begin, f"{name}(ID, "), (*between, ", "), (end, end, ")")]
            self.add("logic", begin, end, edits, "&& for ||: " + self.text(begin, end), line)

    def add_constant(self, cursor):
        text = self.text_of(cursor)
        changed = None
        if cursor.kind == CursorKind.INTEGER_LITERAL and re.fullmatch(r"[0-9]+[uUlL]*", text):
            changed = f"({text} + mutant(ID))"
        elif cursor.kind == CursorKind.FLOATING_LITERAL and re.fullmatch(r"[0-9.eE+-]+f?", text):
            changed = f"({text} * (1 + 0.1 * mutant(ID)))"
        if changed is not None:
            self.add("constant", begin_of(cursor), end_of(cursor),
                [(begin_of(cursor), end_of(cursor), changed)], f"{text} larger", cursor.extent.start.line)

    def add_name(self, kind, cursor, other):
        """other is read and written in place of what stands there; both have one type."""
        text = self.text_of(cursor)
        changed = f"(*(mutant(ID) ? &{other} : &{text}))"
        self.add(kind, begin_of(cursor), end_of(cursor), [(begin_of(cursor), end_of(cursor), changed)],
            f"{text} -> {other}", cursor.extent.start.line)

    def add_member(self, cursor):
        parts = re.fullmatch(r"(\w+)(->|\.)(\w+)", self.text_of(cursor))
        field = cursor.referenced
        if not parts or field is None or field.kind != CursorKind.FIELD_DECL or field.is_bitfield():
            return
        others = [
            f.spelling for f in field.semantic_parent.get_children()
            if f.kind == CursorKind.FIELD_DECL and f.spelling not in ("", field.spelling)
            and not f.is_bitfield() and type_of(f) == type_of(field)]
        if others:
            self.add_name("member", cursor, parts[1] + parts[2] + self.drawn.choice(others))

    def add_variable(self, cursor, function):
        variable = cursor.referenced
        if variable is None or variable.kind not in (CursorKind.PARM_DECL, CursorKind.VAR_DECL) or \
                variable.semantic_parent != function or self.text_of(cursor) != variable.spelling or \
                variable.type.get_canonical().kind in ARRAYS:
            return
        others = [
            p.spelling for p in function.get_arguments()
            if p.spelling not in ("", variable.spelling) and type_of(p) == type_of(variable)]
        if others:
            self.add_name("variable", cursor, self.drawn.choice(others))

    def add_swap(self, call):
        """Two arguments beside each other, of one type, exchanged."""
        simple = r"&?\w+((->|\.)\w+)*(\[\w+\])?"
        given = list(call.get_arguments())
        pairs = []
        for a, b in zip(given, given[1:]):
            texts = self.text_of(a), self.text_of(b)
            if texts[0] != texts[1] and all(re.fullmatch(simple, t) for t in texts) and \
                    type_of(a) == type_of(b) and not self.in_macro(begin_of(a), end_of(b)):
                pairs.append((a, b, *texts))
        if pairs:
            a, b, first, second = self.drawn.choice(pairs)
            edits = [
                (begin_of(a), end_of(a), f"(mutant(ID) ? {second} : {first})"),
                (begin_of(b), end_of(b), f"(mutant(ID) ? {first} : {second})")]
            self.add("swap", begin_of(a), end_of(b), edits,
                f"{call.spelling}: {first} and {second} exchanged", call.extent.start.line)

    def add_negation(self, condition):
        begin, end = begin_of(condition), end_of(condition)
        if condition.kind != CursorKind.BINARY_OPERATOR and not self.in_macro(begin, end):
            self.add("negation", begin, end, [(begin, begin, "MUTANT_NOT(ID, "), (end, end, ")")],
                "negated: " + self.text(begin, end), condition.extent.start.line)

    def add_expression(self, cursor, parts, function, is_callee):
        if cursor.kind == CursorKind.BINARY_OPERATOR and len(parts) == 2:
            self.add_operator(cursor, *parts)
        elif cursor.kind in (CursorKind.INTEGER_LITERAL, CursorKind.FLOATING_LITERAL):
            self.add_constant(cursor)
        elif cursor.kind == CursorKind.IF_STMT and parts:
            self.add_negation(parts[0])
        elif cursor.kind == CursorKind.MEMBER_REF_EXPR and not is_callee:
            self.add_member(cursor)
        elif cursor.kind == CursorKind.DECL_REF_EXPR and not is_callee:
            self.add_variable(cursor, function)
        elif cursor.kind == CursorKind.CALL_EXPR:
            self.add_swap(cursor)

    @staticmethod
    def statements_of(cursor, parts):
        kind = cursor.kind
        if kind in (CursorKind.COMPOUND_STMT, CursorKind.DEFAULT_STMT):
            return parts
        if kind in (CursorKind.IF_STMT, CursorKind.CASE_STMT):
            return parts[1:]
        if kind in (CursorKind.FOR_STMT, CursorKind.WHILE_STMT):
            return parts[-1:]
        return parts[:1] if kind == CursorKind.DO_STMT else []

    @staticmethod
    def parts_of(cursor):
        """What of cursor may hold mutants."""
        parts = list(cursor.get_children())
        if cursor.kind in (CursorKind.ENUM_DECL, CursorKind.CXX_UNARY_EXPR):  # the latter is sizeof
            return []
        if cursor.kind == CursorKind.FUNCTION_DECL:
            return [p for p in parts if p.kind == CursorKind.COMPOUND_STMT]
        if cursor.kind == CursorKind.VAR_DECL:
            if cursor.storage_class == StorageClass.STATIC:
                return []
            if cursor.type.kind in ARRAYS:
                return [p for p in parts if p.kind == CursorKind.INIT_LIST_EXPR]
            return [p for p in parts if p.kind.is_expression()]
        return parts

    def walk(self, cursor, function, is_callee):
        parts = self.parts_of(cursor)
        if self.is_here(cursor) and not self.in_macro(begin_of(cursor), end_of(cursor)):
            self.add_expression(cursor, parts, function, is_callee)
        for statement in self.statements_of(cursor, parts):
            if self.is_here(statement):
                self.add_statement(statement)
        for i, part in enumerate(parts):
            if cursor.kind != CursorKind.CASE_STMT or i > 0:
                self.walk(part, function, cursor.kind == CursorKind.CALL_EXPR and i == 0)


def conflict(a, b):
    """Whether an edit of one replaces text in which the other has an edit."""
    def inside(x, y):
        return any(
            (xb < yb < xe) if yb == ye else (xb < ye and yb < xe)
            for xb, xe, _ in x["edits"] if xb != xe for yb, ye, _ in y["edits"])
    return inside(a, b) or inside(b, a) or (a["begin"], a["end"]) == (b["begin"], b["end"])


def edited(source, mutants):
    """source with all edits. At one place what ends comes before what begins, the inner first."""
    opening, closing, replaced = {}, {}, {}
    for m in mutants:
        for begin, end, text in m["edits"]:
            text = text.replace("ID", str(m["id"]))
            if begin != end:
                replaced[begin] = (end, text)
            elif begin == m["end"]:
                closing.setdefault(begin, []).append((-m["begin"], text))
            else:
                opening.setdefault(begin, []).append((-m["end"], text))
    out, i = [], 0
    while i <= len(source):
        for texts in (closing, opening):
            out += [text.encode() for _, text in sorted(texts.get(i, []), key=lambda x: x[0])]
        if i in replaced:
            end, text = replaced[i]
            out += [text.encode(), b"\n" * source[i:end].count(b"\n")]
            i = end
            continue
        out.append(source[i:i + 1])
        i += 1
    return b"".join(out)


def drawn_mutants(places, count, first_id, drawn):
    order = sorted(places.found, key=lambda m: drawn.random() ** (1 / WEIGHTS[m["kind"]]), reverse=True)
    mutants = []
    for m in order:
        if len(mutants) < count and not any(conflict(m, o) for o in mutants):
            m["id"] = first_id + len(mutants)
            mutants.append(m)
    return mutants


def compiled(path, command, folder, source, mutants):
    """Writes the file; leaves out the mutants of lines that the compiler refuses."""
    while True:
        with open(path, "wb") as file:
            file.write(edited(source, mutants))
        run = subprocess.run(command.replace(" -c ", " -fsyntax-only -c ", 1), shell=True, cwd=folder,
            capture_output=True, text=True)
        if run.returncode == 0:
            return mutants
        lines = {int(x) for x in re.findall(re.escape(path) + r":(\d+):\d+: error", run.stderr)}
        kept = [m for m in mutants if not any(
            m["line"] <= line <= m["line"] + m["what"].count("\n") for line in lines)]
        mutants = kept if len(kept) < len(mutants) else []


def main():
    tree, build, seed, density = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4])
    headers = sorted(glob.glob("/usr/lib/llvm-*/lib/clang/*"))
    all_mutants, all_places = [], 0
    with open(f"{build}/compile_commands.json") as file:
        entries = json.load(file)
    for entry in sorted(entries, key=lambda e: e["file"]):
        path = os.path.relpath(entry["file"], tree)
        if path.startswith(("tests/", "build", "..")) or not path.startswith(tuple(sys.argv[5:]) or ""):
            continue
        words = entry["command"].replace('\\"', '"').split()
        arguments = [w for w in words if w.startswith(("-I", "-D", "-std"))]
        for word, following in zip(words, words[1:]):
            arguments += [word, following] if word == "-isystem" else []
        arguments += ["-resource-dir", headers[-1]] if headers else []
        drawn = random.Random(f"{seed} {path}")
        places = Places(entry["file"], arguments, drawn)
        count = max(1, round(density * places.source.count(b"\n") / 1000))
        mutants = drawn_mutants(places, count, all_mutants[-1]["id"] + 1 if all_mutants else 1, drawn)
        mutants = compiled(entry["file"], entry["command"], entry["directory"], places.source, mutants)
        for m in mutants:
            all_mutants.append({"id": m["id"], "file": path, "line": m["line"], "kind": m["kind"],
                "what": " ".join(m["what"].split())})
        all_places += len(places.found)
    with open(f"{build}/mutants.json", "w") as file:
        json.dump(all_mutants, file, indent=0)
    print(f"{len(all_mutants)} mutants at {all_places} places")


main()
