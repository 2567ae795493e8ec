"""The loop of a bead: a model calls tools, gets their results, and hands over its answer.

Turns, mistakes and repeated calls are limited; the model is warned before it fails the bead. Its
messages are trimmed to the model's context: old tool results go first.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gitlab_nightshift.agents.model.answers import (
    MalformedError,
    check_answer,
    find_no_change_reason,
    parse_blocks,
    parse_json_answer,
)
from gitlab_nightshift.agents.model.chat_client import (
    KEPT_THOUGHT_KEYS,
    ChatClient,
    CutOffError,
    EndpointError,
    Message,
    ModelCall,
    ModelReply,
)
from gitlab_nightshift.agents.model.edits import NotApplicableError
from gitlab_nightshift.agents.model.texts import build_finish, render_loop_text
from gitlab_nightshift.agents.model.tools import FINISH, MistakeError, Toolbox, ToolResult, cut_text
from gitlab_nightshift.text.endpoint_answers import find_written_calls

MOST_TURNS = 100
MOST_CALLS = 25
"""Calls of one turn that are run; further ones count as a mistake."""
MOST_MISTAKES = 10
WARNED_REPEATS, MOST_REPEATS = 3, 6
"""How often a call may give the same result before the model is warned, and before the bead fails.
"""
MOST_REDUCTIONS = 4
"""How often a request that is too long is shortened and sent again."""
WARNED_SHARE = 0.8
"""The used share of a limit from which on the model is asked to finish."""
LEAST_ANSWER = 1024
"""Tokens: the gateway forwards no request whose answer may have fewer."""
NO_CALL = "no tool call"
EmitEvent = Callable[[Mapping[str, Any]], None]
"""Reports an event as a line of the agent's output, in which long texts are cut."""


@dataclass(frozen=True)
class LoopLimits:
    """``answer_tokens`` limits each answer; ``usd``, ``tokens`` and ``seconds`` are what is left of
    the run, None for no limit; ``rates`` are USD per million tokens of input and of output, 0 if
    the price is unknown."""

    answer_tokens: int
    usd: float | None = None
    tokens: int | None = None
    seconds: float | None = None
    rates: tuple[float, float] = (0.0, 0.0)


@dataclass
class _LoopUsage:
    """The usage of the loop, as far as the endpoint reports it: only to warn the model. The gateway
    enforces the limits."""

    turns: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    started_s: float = field(default_factory=time.monotonic)

    def measure(self, limits: LoopLimits) -> tuple[float, str]:
        """The largest used share of a limit, and the limit's name."""
        shares = [(self.turns / MOST_TURNS, "turns")]
        if limits.usd:
            usd = (self.tokens_in * limits.rates[0] + self.tokens_out * limits.rates[1]) / 1e6
            shares.append((usd / limits.usd, "money"))
        if limits.tokens:
            shares.append(((self.tokens_in + self.tokens_out) / limits.tokens, "tokens"))
        if limits.seconds:
            shares.append(((time.monotonic() - self.started_s) / limits.seconds, "time"))
        return max(shares)


class AgentLoop:
    """Works on one bead. ``schema`` is its answer's, None for a bead that only changes files."""

    def __init__(
        self,
        chat: ChatClient,
        toolbox: Toolbox,
        limits: LoopLimits,
        schema: Mapping[str, Any] | None,
        emit: EmitEvent,
    ) -> None:
        self._chat, self._toolbox, self._limits, self._emit = chat, toolbox, limits, emit
        self._schema, self._usage, self._warned = schema, _LoopUsage(), False
        self._tools = (*toolbox.list_tools(), build_finish(schema))
        self._mistakes, self._changed = list[str](), False
        self._repeats: dict[str, int] = {}

    def run(self, task: str) -> Any:
        """Work until the model finishes; returns its structured answer, or its last sentence.

        Raises MalformedError if the model's answers cannot be used, EndpointError,
        ContextTooSmallError.
        """
        listed = self._chat.read_model()
        self._start(task, listed.context, fenced="tools" in listed.refused)
        while True:
            self._begin_turn()
            reply = self._ask(task)
            results, answer = self._handle_reply(reply)
            if answer is not None:
                return answer
            self._new_results = len(results)
            self._add_results(results)

    def _start(self, task: str, context: int, *, fenced: bool) -> None:
        """Begin the conversation. ``fenced``: the endpoint has no tool calls, so the model writes
        them as text, in a fence."""
        self._fenced, self._new_results = fenced, 0
        system = {"role": "system", "content": render_loop_text(self._tools, fenced=fenced)}
        messages = [system, {"role": "user", "content": task}]
        self._chat_tools = None if fenced else [tool.to_chat() for tool in self._tools]
        tool_tokens = estimate_tokens([{"tools": self._chat_tools}]) if self._chat_tools else 0
        self._conversation = Conversation(messages, context, tool_tokens)

    def _begin_turn(self) -> None:
        """Count a turn; once, warn the model that a limit is near."""
        if self._usage.turns >= MOST_TURNS:
            raise MalformedError(f"no {FINISH} within {MOST_TURNS} turns")
        self._usage.turns += 1
        share, limit = self._usage.measure(self._limits)
        if share >= WARNED_SHARE and not self._warned:
            self._warned = True
            text = f"Little is left ({limit}): end your work now and call `{FINISH}`."
            self._conversation.add({"role": "user", "content": text})

    def _ask(self, task: str) -> ModelReply:
        """The next answer. A request that is too long is shortened; if the endpoint has no tool
        calls, they are asked for as text. Raises EndpointError, ContextTooSmallError."""
        reductions = 0
        while True:
            trims_before, max_tokens = self._conversation.trims, self._compute_answer_tokens()
            messages = self._conversation.fit(max_tokens, self._new_results)
            if self._conversation.trims > trims_before:
                self._emit({"type": "trimmed", "tokens": estimate_tokens(messages)})
            try:
                reply = self._chat.ask(messages, max_tokens, tools=self._chat_tools)
            except CutOffError as cut:
                if not cut.hit_token_limit:
                    raise
                self._count_mistake("an answer without its end", str(cut))
                placeholder = {"role": "assistant", "content": "(an answer that was too long)"}
                self._conversation.add(placeholder)
                text = f"{cut}. Answer with one short call of a tool."
                self._conversation.add({"role": "user", "content": text})
            except EndpointError as error:
                # Only at the first turn: later messages already contain tool calls.
                if error.refuses_tools and not self._fenced and self._usage.turns == 1:
                    self._start(task, self._conversation.context, fenced=True)
                elif error.too_long and reductions < MOST_REDUCTIONS:
                    reductions += 1
                    self._conversation.reduce_context(error.context, max_tokens)
                else:
                    raise
            else:
                self._usage.tokens_in += reply.tokens_in
                self._usage.tokens_out += reply.tokens_out
                return reply

    def _compute_answer_tokens(self) -> int:
        """The limit of an answer, at most a quarter of the context."""
        wanted, context = self._limits.answer_tokens, self._conversation.context
        return max(min(wanted, context // 4), LEAST_ANSWER) if context else wanted

    def _handle_reply(self, reply: ModelReply) -> tuple[list[tuple[str, str]], Any]:
        """The results of a reply's calls by their ids ("" for calls as text), and the bead's
        answer, None if the work goes on."""
        calls = reply.calls or tuple(
            ModelCall(f"text{self._usage.turns}-{number}", name, arguments)
            for number, (name, arguments) in enumerate(find_written_calls(reply.text))
        )
        message = dict(reply.message)
        if reply.calls and len(calls) > MOST_CALLS:
            # Servers refuse a message with a call that has no result.
            message["tool_calls"] = message["tool_calls"][:MOST_CALLS]
        self._conversation.add(message)
        if reply.text.strip():
            self._emit({"type": "said", "text": reply.text.strip()[:2000]})
        if not calls:
            return self._handle_text(reply.text)
        results, answer = list[tuple[str, str]](), None
        for call in calls[:MOST_CALLS]:
            result, final = self._handle_call(call)
            results.append((call.call_id if reply.calls else "", result))
            answer = answer if final is None else final
        if len(calls) > MOST_CALLS and answer is None:
            text = f"{len(calls)} calls in one turn; only the first {MOST_CALLS} were run"
            call_id, result = results[-1]
            results[-1] = (call_id, f"{result}\n{text}")
            self._count_mistake("too many calls in one turn", text)
        return results, answer

    def _handle_text(self, text: str) -> tuple[list[tuple[str, str]], Any]:
        """Handle a reply without a call: blocks, the report itself, or, if the bead has no report,
        its last sentence."""
        try:
            if self._toolbox.edits and (blocks := parse_blocks(text)):
                paths = {block.path for block in blocks}
                self._emit_call("blocks", "edit", {"path": ", ".join(paths)})
                result = self._toolbox.apply_blocks(blocks)
                self._emit_result("blocks", result)
                self._changed = True
                return [("", result.text)], None
            return [], self._parse_final_text(text)
        except (MalformedError, NotApplicableError) as error:
            self._count_mistake(NO_CALL, str(error))
            return [("", f"{error}\nCall a tool, or `{FINISH}` with your report.")], None
        except MistakeError as mistake:
            self._count_mistake(mistake.kind, str(mistake))
            return [("", str(mistake))], None

    def _parse_final_text(self, text: str) -> Any:
        """The bead's answer: its report or, for a bead without one, a last sentence. A sentence
        counts only once something was changed: many models start with one about their plan."""
        if self._schema is not None:
            return parse_json_answer(text, self._schema)
        reason = find_no_change_reason(text)
        if reason is None and not self._changed and NO_CALL not in self._mistakes:
            raise MalformedError("you have changed nothing so far")
        return text.strip() if reason is None else reason

    def _handle_call(self, call: ModelCall) -> tuple[str, Any]:
        """The result of a call, and the answer if it was ``finish``."""
        self._emit_call(call.call_id, call.name, call.arguments)
        try:
            if call.name == FINISH:
                return "taken", self._read_answer(call)
            result = self._toolbox.call(call.name, call.arguments)
            self._changed = self._changed or (call.name == "edit" and result.outcome == "ok")
        except MistakeError as mistake:
            self._count_mistake(mistake.kind, str(mistake))
            result = ToolResult(f"error: {mistake}", "refused")
        self._emit_result(call.call_id, result)
        return self._note_repetition(call, result), None

    def _read_answer(self, call: ModelCall) -> Any:
        arguments = call.arguments
        if arguments is None:
            raise MistakeError("broken JSON", "finish: its arguments are not one JSON object")
        if self._schema is None:
            return str(arguments.get("summary") or "done")
        try:
            return check_answer(arguments, self._schema)
        except MalformedError as error:
            raise MistakeError("a report of another shape", str(error)) from None

    def _note_repetition(self, call: ModelCall, result: ToolResult) -> str:
        """The result, with a warning if the same call has given it before."""
        # With the result: the same command after an edit is no repetition.
        key = json.dumps([call.name, call.arguments, result.text], sort_keys=True, default=str)
        count = self._repeats[key] = self._repeats.get(key, 0) + 1
        if count >= MOST_REPEATS:
            raise MalformedError(
                f"the same call of {call.name} {count} times, with the same result"
            )
        if count < WARNED_REPEATS:
            return result.text
        return f"{result.text}\n(You have made this call {count} times, with the same result.)"

    def _count_mistake(self, kind: str, text: str) -> None:
        self._mistakes.append(kind)
        self._emit({"type": "mistake", "kind": kind, "text": text[:1000]})
        if len(self._mistakes) >= MOST_MISTAKES:
            raise MalformedError(f"{len(self._mistakes)} mistakes, the last: {kind}: {text[:500]}")

    def _add_results(self, results: list[tuple[str, str]]) -> None:
        """Add results as messages of tools, or of a user if the calls were written as text."""
        for call_id, text in results:
            if call_id:
                message = {"role": "tool", "tool_call_id": call_id, "content": text}
                self._conversation.add(message, droppable=True)
        if written := [text for call_id, text in results if not call_id]:
            text = "\n\n".join(f"Result:\n{text}" for text in written)
            self._conversation.add({"role": "user", "content": text}, droppable=True)

    def _emit_call(self, call_id: str, name: str, arguments: Mapping[str, Any] | None) -> None:
        arguments = arguments or {}
        shown: dict[str, Any] = {key: str(value)[:400] for key, value in arguments.items()}
        if isinstance(command := arguments.get("command"), list):
            shown = {"command": command[:50]}
        self._emit({"type": "call", "id": call_id, "tool": name[:100], "input": shown})

    def _emit_result(self, call_id: str, result: ToolResult) -> None:
        event = {"type": "result_of", "id": call_id, "how": result.outcome}
        self._emit({**event, "output": result.text[:4000]})


# --- the messages ---------------------------------------------------------------------------------

BYTES_PER_TOKEN = 3
"""A low estimate, to be safe: code has three to four."""
UNKNOWN_CONTEXT = 128_000
"""Tokens to assume if nobody says how many the model takes."""
TRIMMED_SHARE = 0.7
"""The share of the limit to which a trim shortens. Each trim invalidates the endpoint's cache, so
it should last for some turns."""
SHORTEST_RESULT = 400
"""Characters; a result is not shortened further."""
DROPPED = "(this output was dropped to save room; call the tool again if you need it)"


class ContextTooSmallError(Exception):
    """The task alone does not fit into the model's context."""


@dataclass
class Conversation:
    """The messages so far. ``context`` is what the model takes in all, its answer included (0:
    unknown), and ``tool_tokens`` what the tools take beside the messages, both in tokens; ``trims``
    counts. ``_results`` are the indexes of messages whose text may be dropped."""

    messages: list[Message]
    context: int = 0
    tool_tokens: int = 0
    trims: int = 0
    _results: list[int] = field(default_factory=list)

    def add(self, message: Message, *, droppable: bool = False) -> None:
        """Add a message; the text of a ``droppable`` one, a tool's result, may go later."""
        if droppable:
            self._results.append(len(self.messages))
        self.messages.append(message)

    def reduce_context(self, reported: int, answer_tokens: int) -> None:
        """Lower the context after a request that was too long: to what the endpoint ``reported``,
        else to three quarters of what was sent, whose tokens are only estimated here."""
        sent = estimate_tokens(self.messages) + self.tool_tokens + answer_tokens
        before = self.context or sent
        # A reported context that is no smaller than the known one explains nothing: then the next
        # try is just shorter.
        self.context = reported if 0 < reported < before else min(before, sent) * 3 // 4

    def fit(self, answer_tokens: int, new_results: int = 0) -> Sequence[Message]:
        """The messages, trimmed to leave room for the answer. The ``new_results`` at the end are
        kept if possible.

        Raises :class:`ContextTooSmallError`.
        """
        limit = (self.context or UNKNOWN_CONTEXT) - answer_tokens - self.tool_tokens
        if estimate_tokens(self.messages) <= limit:
            return self.messages
        self.trims += 1
        first_new = len(self.messages) - new_results
        # In this order: old results, which the model can get again; thoughts; whole turns; and new
        # results, which it has not read.
        for index in [index for index in self._results if index < first_new]:
            if estimate_tokens(self.messages) <= limit * TRIMMED_SHARE:
                return self.messages
            self._replace_text(index, DROPPED)
        self._drop_thoughts(first_new)
        while estimate_tokens(self.messages) > limit and self._drop_oldest_turn():
            pass
        while estimate_tokens(self.messages) > limit and self._results:
            texts = {index: str(self.messages[index]["content"]) for index in self._results}
            index, text = max(texts.items(), key=lambda item: len(item[1]))
            if len(text) <= SHORTEST_RESULT:
                break
            self._replace_text(index, cut_text(text, len(text) // 2))
        if estimate_tokens(self.messages) > limit:
            raise ContextTooSmallError(f"the task does not fit into {self.context} tokens")
        return self.messages

    def _drop_oldest_turn(self) -> bool:
        """Drop the oldest message of the assistant and the results of its calls, without which
        servers refuse it; False if it is the only one."""
        answers = [i for i, message in enumerate(self.messages) if message["role"] == "assistant"]
        if len(answers) < 2:
            return False
        start, end = answers[:2]
        del self.messages[start:end]
        self._results = [index - (end - start) for index in self._results if index >= end]
        return True

    def _replace_text(self, index: int, text: str) -> None:
        self.messages[index] = {**self.messages[index], "content": text}

    def _drop_thoughts(self, end: int) -> None:
        for index, message in enumerate(self.messages[:end]):
            if message["role"] == "assistant":
                self.messages[index] = {
                    key: value for key, value in message.items() if key not in KEPT_THOUGHT_KEYS
                }


def estimate_tokens(messages: Iterable[Message]) -> int:
    """Tokens of the messages, estimated high."""
    size = sum(len(repr(message).encode("utf-8", "replace")) for message in messages)
    return size // BYTES_PER_TOKEN
