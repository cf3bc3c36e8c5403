/** docs/errors.md: every status and code, who answers with it, and what helps. A code without advice stops the writing. */
import { operations } from "./openapi.mjs"

/** Refusals of the HTTP parser, before there is an operation. */
const BEFORE = ["408 request_timeout", "431 headers_too_large"]

/** By status and code: what the caller can do, and whether the same request may succeed later. */
const HELPS = {
  "400 invalid_request": "Change the request as the message says. `/openapi.json` has every field.",
  "400 invalid_idempotency_key": "Send `Idempotency-Key` once, with 1 to 255 printable ASCII characters.",
  "400 invalid_cursor": "Begin without a cursor; use cursors of a page of the same list and grant.",
  "400 invalid_model": "Name a usable model: `slipway models` lists them.",
  "400 invalid_reasoning_effort": "Leave `reasoningEffort` out, or name an effort of the model.",
  "400 approvals_unsupported": "Choose a model whose agent can ask, or `toolApprovalMode` `auto`.",
  "400 invalid_answer": "Answer the questions of the request: labels of their options, or a text where they allow one.",
  "400 invalid_path": "Give a path relative to the repository, without `..`.",
  "400 is_directory": "List it with `files/tree`.",
  "400 not_a_directory": "Download it with `files/download`.",
  "400 repo_required": "Name one of the sandbox's repositories as `repo`.",
  "401 unauthorized": "Send `Authorization: Bearer KEY`, with a valid key.",
  "402 no_credits": "Retry after credits were added.",
  "402 budget_exceeded": "Retry after an operator raised the budget: `slipway grants budget`.",
  "403 insufficient_scope": "Use a key with the scope that `WWW-Authenticate` names.",
  "403 forbidden": "An owner adds the key's user to the organization, or an operator resumes it.",
  "403 repo_not_accessible": "Let Slipway use the repository, as the message says: `slipway repos add`, or the GitHub App.",
  "403 file_protected": "Nothing: environment files, settings of agents and `.git` are never returned.",
  "404 not_found": "Check the id, and that it belongs to the key's grant.",
  "404 repo_not_found": "Name a repository that the sandbox has.",
  "404 file_not_found": "List the directory.",
  "405 method_not_allowed": "Use a method that `Allow` names.",
  "408 request_timeout": "Send the headers within 10 s, the whole request within 30 s.",
  "409 idempotency_conflict": "Use another key for another request. For the first answer repeat the first request exactly.",
  "409 sandbox_deleted": "Use another key: the sandbox that this key created was deleted.",
  "409 sandbox_not_finished": "End the sandbox first, and delete it once it ended.",
  "409 concurrency_limit_exceeded": "Retry after another sandbox of the grant ended, or end one.",
  "409 sandbox_not_running": "Wait until it runs; fork an ended sandbox.",
  "409 agent_disconnected": "Retry after `Retry-After`, while a worker restores the files or returns.",
  "409 turn_active": "Send it with `whenBusy` `queue` or `steer`, interrupt the turn, or wait for its end.",
  "409 queue_full": "Cancel a waiting message, or wait for the next turn.",
  "409 steering_unsupported": "Send it with `whenBusy` `queue`.",
  "409 automation_paused": "Enable the automation.",
  "409 scope_unsupported": "Decide this one call, without `scope`.",
  "409 message_not_waiting": "Nothing: the error says why. Interrupt its turn if it has begun.",
  "409 invalid_request": "Nothing new to publish: retry after a change.",
  "409 branch_moved": "Merge or close the pull request, or reset its branch to the published commit, then retry.",
  "409 no_failing_checks": "Wait until all checks are done; if none fails there is nothing to fix.",
  "409 pull_request_not_writable": "The message says why: reopen the pull request, or continue another branch.",
  "409 merge_conflict": "Have the agent adapt the named files to the base, or start from its newest commit.",
  "409 conflict": "See the message: a different fact, 20 endpoints, no checkpoint yet.",
  "410 cursor_expired": "Begin at 0: these events are no longer kept.",
  "413 payload_too_large": "Send less: a body has at most 1 MiB.",
  "413 file_too_large": "A download has at most 100 MiB: publish the change, or have the agent split the file.",
  "415 unsupported_media_type": "Send `Content-Type: application/json` in UTF-8, without `Content-Encoding`.",
  "429 rate_limited": "Retry after `Retry-After`.",
  "431 headers_too_large": "Send fewer or shorter headers: at most 16 KiB.",
  "500 internal_error": "Give the operator the reply's `X-Request-Id`, which the log has. A retry rarely helps.",
  "502 source_host_error": "Retry later; `pull_request.updated` has the host's message.",
  "503 unavailable": "Retry after `Retry-After`."
}

/** Many are told by their number alone. */
const answeredBy = (key) => {
  const ids = operations.filter(({ refusals }) => refusals.includes(key)).map(({ id }) => id)
  if (BEFORE.includes(key)) return "any address"
  if (ids.length > operations.length - 3) return "every operation"
  return ids.length > 12 ? `${ids.length} operations` : ids.map((id) => `\`${id}\``).join(", ")
}

const INTRODUCTION = `# Errors

For authors of programs that use the API. After reading this page you know what each error code means, and whether a retry helps.

The body of every error is \`{ "error": { "code", "message" } }\`: \`code\` for programs, \`message\` for people. \`npm run docs:reference\`
writes this page. [Decisions 1](decisions/01-conventions.md#error-codes) says when each code is answered, and
[which comes first](decisions/01-conventions.md#order-of-refusals) where several fit.

Retry 429, 503 and \`agent_disconnected\` after \`Retry-After\` seconds, and a lost connection. For any other error the same request gets
the same answer until something else changes. A creation, a fork or a message that is sent again with its \`Idempotency-Key\` happens
once. Operations have the names of \`/openapi.json\`. Codes may be added. A server that embeds the API may refuse a creation or a fork with
403 and a code of its own.`

export const errors = () => {
  const known = [...new Set([...operations.flatMap(({ refusals }) => refusals), ...BEFORE])]
  const untold = known.filter((key) => !(key in HELPS))
  const unknown = Object.keys(HELPS).filter((key) => !known.includes(key))
  if (untold.length + unknown.length > 0) {
    throw new Error(
      `HELPS of scripts/reference/errors.mjs lacks [${untold.join(", ")}], and has [${unknown.join(", ")}], which no operation answers`
    )
  }
  const rows = Object.entries(HELPS).map(([key, helps]) => `| ${key.replace(" ", " | `")}\` | ${helps} | ${answeredBy(key)} |`)
  return [INTRODUCTION, "", "| status | `code` | what helps | operations |", "|---|---|---|---|", ...rows, ""].join("\n")
}
