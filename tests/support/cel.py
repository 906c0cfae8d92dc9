# SPDX-License-Identifier: MIT
"""As much of the Common Expression Language as a match condition of Kubernetes may need: || && ! == != in, lists, texts,
null, fields, indexes, has(), .exists() and .contains(). Strict: a field that is not there is an error, as it is for an
API server, which then refuses the object (failurePolicy: Fail).

    evaluate(EXPRESSION, {"object": ..., "oldObject": ...}) -> bool
"""
import re

TOKEN = re.compile(r"""\s*(?:(?P<text>"[^"\\]*")|(?P<number>\d+)|(?P<word>[A-Za-z_]\w*)|(?P<sign>\|\||&&|==|!=|[!()\[\],.]))""")


class Error(Exception):
    pass


class Parser:
    """Each part becomes a function of the variables."""

    def __init__(self, text):
        self.tokens, at = [], 0
        text = text.rstrip()
        while at < len(text):
            found = TOKEN.match(text, at)
            if not found:
                raise Error(f"cannot read {text[at:at + 20]!r}")
            self.tokens.append((found.lastgroup, found[found.lastgroup]))
            at = found.end()
        self.tokens.append(("end", ""))

    def take(self, *wanted):
        if self.tokens[0][1] in wanted and self.tokens[0][0] != "text":
            return self.tokens.pop(0)[1]
        return None

    def need(self, wanted):
        if not self.take(wanted):
            raise Error(f"{wanted!r} is missing before {self.tokens[:3]}")

    def whole(self):
        value = self.either()
        if self.tokens[0][0] != "end":
            raise Error(f"what is {self.tokens[:3]}?")
        return value

    def either(self):
        return self.chain("||", self.both, True)

    def both(self):
        return self.chain("&&", self.relation, False)

    def chain(self, sign, part, decides):
        parts = [part()]
        while self.take(sign):
            parts.append(part())
        return parts[0] if len(parts) == 1 else lambda v: join([(p, v) for p in parts], decides)

    def relation(self):
        left = self.unary()
        sign = self.take("==", "!=", "in")
        if not sign:
            return left
        right = self.unary()
        if sign == "in":
            return lambda v: left(v) in right(v)
        return lambda v: (left(v) == right(v)) == (sign == "==")

    def unary(self):
        if self.take("!"):
            value = self.unary()
            return lambda v: not boolean(value(v))
        return self.member()

    def member(self):
        value = self.primary()
        while True:
            if self.take("["):
                value = self.index(value)
            elif self.take("."):
                value = self.field(value, self.tokens.pop(0)[1])
            else:
                return value

    def index(self, value):
        at = self.either()
        self.need("]")

        def get(v):
            try:
                return value(v)[at(v)]
            except (KeyError, IndexError, TypeError) as e:
                raise Error(f"no such key: {e}") from e
        return get

    def field(self, value, name):
        if not self.take("("):
            def get(v):
                it = value(v)
                if not isinstance(it, dict) or name not in it:
                    raise Error(f"no such field: {name}")
                return it[name]
            get.field = (value, name)
            return get
        if name == "contains":
            part = self.either()
            self.need(")")
            return lambda v: part(v) in value(v)
        if name != "exists":
            raise Error(f"no such function: {name}")
        variable = self.tokens.pop(0)[1]
        self.need(",")
        condition = self.either()
        self.need(")")
        return lambda v: join([(condition, {**v, variable: one}) for one in value(v)], True)

    def primary(self):
        if self.take("("):
            value = self.either()
            self.need(")")
            return value
        if self.take("["):
            items = []
            while not self.take("]"):
                items.append(self.either())
                self.take(",")
            return lambda v: [i(v) for i in items]
        kind, text = self.tokens.pop(0)
        if kind == "word" and text == "has" and self.take("("):
            value, name = self.either().field  # nothing else has one
            self.need(")")
            return lambda v: name in value(v)
        if kind in ("text", "number"):
            return lambda v: text[1:-1] if kind == "text" else int(text)
        if kind != "word":
            raise Error(f"what is {text!r}?")
        return lambda v: None if text == "null" else v[text]


def boolean(value):
    if not isinstance(value, bool):
        raise Error(f"{value!r} is neither true nor false")
    return value


def join(parts, decides):
    """One that decides does so, whatever errors the others have."""
    error = None
    for part, variables in parts:
        try:
            if boolean(part(variables)) == decides:
                return decides
        except Error as e:
            error = e
    if error:
        raise error
    return not decides


def evaluate(expression, variables):
    return boolean(Parser(expression).whole()(variables))
