import { type Plants, plantsIn } from "./Plant.ts"

/** Faults of the pure rules, for the published laws alone: `npm run mutants` judges the rules' own tests. */
export const plants: Plants = {
  port: "rules",
  subject: "packages/testing/test/sandbox/Histories.suites.ts",
  anew: ["packages/domain/src/", "packages/testing/src/"],
  plants: [
    ...plantsIn("packages/domain/src/sandbox/rules/TimeLimit.ts", [
      [
        "counts the lifetime from the first start",
        "at: after(createdAt, limits.lifetime)",
        "at: after(sandbox.startedAt ?? createdAt, limits.lifetime)"
      ],
      [
        "counts the lifetime from the last change of status",
        "at: after(createdAt, limits.lifetime)",
        "at: after(statusAt, limits.lifetime)"
      ],
      [
        "counts the queue from the lifetime limit",
        "after(createdAt, limits.queue)",
        "after(createdAt, limits.lifetime)"
      ],
      [
        "never gives a release up",
        "if (status === \"terminating\") {",
        "if (status === \"terminating\" && statusAt === null) {"
      ],
      [
        "lets a turn run out of time while it is pending",
        "if (turn.startedAt !== null) {",
        "{"
      ],
      [
        "answers a question that expires",
        "closeQuestion(s, { question_id, by: \"timeout\" })",
        "closeQuestion(s, { question_id, by: \"timeout\", answers: { 1: { text: \"Yes.\" } } })"
      ],
      [
        "counts idleness from the status alone",
        "after(idleSince ?? statusAt, limits.idle)",
        "after(statusAt, limits.idle)"
      ],
      [
        "is idle while it publishes",
        "else if (!sandbox.publications.some(isUnderWay))",
        "else"
      ],
      [
        "succeeds after its last turn failed",
        "turn?.state === \"failed\" ? \"last_turn_failed\" : \"idle_timeout\"",
        "\"idle_timeout\""
      ],
      [
        "gives setups any time in a boot",
        "Duration.min(Duration.millis(setupMs), MAX_SETUP)",
        "Duration.millis(setupMs)"
      ],
      [
        "is due a moment late",
        "Instant.isLessThanOrEqualTo(at, now)",
        "Instant.isLessThan(at, now)"
      ],
      [
        "applies one limit alone at a time",
        "    current = evolveAll(current, decided.success, now)",
        "    return Result.succeed(events)"
      ],
      [
        "approves an expired approval",
        "outcome: \"denied\", by: \"timeout\"",
        "outcome: \"approved\", by: \"timeout\""
      ]
    ]),
    ...plantsIn("packages/domain/src/sandbox/rules/LeaseRules.ts", [
      [
        "rests with a checkpoint owed",
        "restoring !== null || owesCheckpoint || syncing",
        "restoring !== null || syncing"
      ],
      [
        "publishes nothing once it is over",
        "return publications.some(isUnderWay) ? \"errand\" : null\n    case \"terminated\"",
        "return null\n    case \"terminated\""
      ]
    ]),
    ...plantsIn("packages/domain/src/sandbox/rules/MessageQueue.ts", [
      [
        "puts what steers behind what waits",
        "steers ? waiting.filter((message) => message.steers).length : waiting.length",
        "waiting.length"
      ],
      [
        "takes the newest message first",
        "waiting.toSpliced(placeOf(queue, steers), 0,",
        "waiting.toSpliced(0, 0,"
      ],
      [
        "keeps texts of what waits no longer",
        "waitingTexts: waitingTexts.filter(({ id }) => id !== messageId)",
        "waitingTexts"
      ],
      [
        "lets eleven wait",
        "export const MAX_WAITING = 10",
        "export const MAX_WAITING = 11"
      ]
    ]),
    ...plantsIn("packages/domain/src/sandbox/rules/Command.ts", [
      [
        "applies terminate twice",
        "receipt?.outcome === \"applied\"\n      ? duplicate\n      // A sandbox",
        "receipt?.outcome === \"none\"\n      ? duplicate\n      // A sandbox"
      ],
      [
        "interrupts a sandbox that is over",
        "if (isOver(sandbox)) return rejected(\"sandbox_terminal\")\n    const { turn } = sandbox",
        "const { turn } = sandbox"
      ],
      [
        "takes another answer to what is answered",
        "if (question.by !== null || !isActive(sandbox.turn)) return",
        "if (!isActive(sandbox.turn)) return"
      ],
      [
        "calls another answer to what is answered a duplicate",
        "question.by === \"user\" && replyText(question) === replyText(reply)",
        "question.by === \"user\""
      ],
      [
        "leaves approvals open when it interrupts",
        "...closeRequests(sandbox, \"interrupt\"),",
        ""
      ],
      [
        "lets a second person change a decision",
        "if (approval.outcome !== null) return rejected(\"approval_already_resolved\")",
        ""
      ],
      [
        "tells an expired approval as decided",
        "if (approval.by === \"timeout\") return rejected(\"approval_expired\")",
        ""
      ],
      [
        "approves all that waits with one approval",
        "kind !== null && other.approval_id !== approvalId && coveredKind(other) === kind",
        "other.approval_id !== approvalId"
      ],
      [
        "approves all kinds for the turn",
        "kind !== null && other.approval_id !== approvalId && coveredKind(other) === kind",
        "kind !== null && other.approval_id !== approvalId"
      ],
      [
        "queues without a limit",
        "if (sandbox.waiting.length >= MAX_WAITING) return Result.fail(new QueueFull())",
        ""
      ],
      [
        "gives a message the id of a turn that was",
        "(turn?.n ?? 0) + waiting.length + turnless",
        "(turn?.n ?? 0) + waiting.length"
      ],
      [
        "cancels a message twice",
        "if (receipt?.outcome === \"applied\") return duplicate\n    if (isWaiting",
        "if (isWaiting"
      ],
      [
        "goes back in the midst of a turn",
        "if (isActive(sandbox.turn)) return rejected(\"turn_active\")\n    if (sandbox.restoring",
        "if (sandbox.restoring"
      ],
      [
        "syncs in the midst of a turn",
        "if (isActive(sandbox.turn)) return Result.fail(new TurnActive())\n    if (sandbox.restoring",
        "if (sandbox.restoring"
      ],
      [
        "takes a title once for all",
        "title === current ? Math.max(renames - 1, 0) : renames",
        "0"
      ]
    ]),
    ...plantsIn("packages/domain/src/sandbox/rules/SystemCommand.ts", [
      [
        "tells the end of a sync without a request",
        "Result.succeed(sandbox.syncing ? [{ type: \"sandbox.synced\", data: command.data }] : [])",
        "Result.succeed([{ type: \"sandbox.synced\", data: command.data }])"
      ],
      [
        "starts a turn twice",
        "if (state !== \"pending\") return Result.succeed([])",
        ""
      ],
      [
        "records work of a turn that is over",
        "isActive(sandbox.turn) && sandbox.turn.id === command.turnId && sandbox.turn.startedAt !== null\n          ? admit",
        "sandbox.turn !== null && sandbox.turn.startedAt !== null\n          ? admit"
      ],
      [
        "asks again what waits already",
        "if (sandbox.approvals.some(({ approval_id }) => approval_id === approval.approval_id)) return Result.succeed([])",
        ""
      ],
      [
        "asks while the turn is being ended",
        "if (interruptRequested) return { outcome: \"denied\", by: \"interrupt\" } as const",
        ""
      ],
      [
        "ends another turn than it was told",
        "if (sandbox.turn?.id !== turnId) return Result.succeed([])\n      const more",
        "const more"
      ],
      [
        "skips a number of a checkpoint",
        "if (data.checkpoint !== undefined && data.checkpoint !== sandbox.checkpoint + 1) return refuse(command._tag, sandbox)",
        ""
      ],
      [
        "keeps the turn of a lost machine",
        "const isLost = isActive(turn) && turn.startedAt !== null",
        "const isLost = false"
      ],
      [
        "continues with no message after a lost turn",
        "...(isLost ? nextTurn(sandbox) : [])",
        ""
      ],
      [
        "ends a finished sandbox for a revoked grant",
        "live.includes(sandbox.status) ? moveTo(sandbox, \"grant_revoked\") : Result.succeed([])",
        "moveTo(sandbox, \"grant_revoked\")"
      ]
    ]),
    ...plantsIn("packages/domain/src/sandbox/rules/Sandbox.ts", [
      [
        "forgets when it first ran",
        "sandbox.startedAt ?? (data.status === \"running\" ? at : null)",
        "data.status === \"running\" ? at : null"
      ],
      [
        "is over at another time each time",
        "sandbox.completedAt ?? (isSettled(data.status) ? at : null)",
        "isSettled(data.status) ? at : sandbox.completedAt"
      ],
      [
        "says nothing of a release that failed",
        "  release_failed: \"The host did not confirm that everything of the sandbox is gone.\"\n",
        ""
      ],
      [
        "owes no checkpoint after a turn",
        "pinned: event.data.checkpoint === undefined\n",
        "pinned: false\n"
      ],
      [
        "forgets tokens that are not told",
        "tokens: event.data.tokens ?? sandbox.tokens",
        "tokens: event.data.tokens ?? noTokenCounts"
      ],
      [
        "counts every event in its revision",
        "(changesRevision[event.type] ? 1 : 0)",
        "1"
      ],
      [
        "counts its log from a gap",
        "lastSeq: sandbox.lastSeq + 1",
        "lastSeq: sandbox.lastSeq + (event.type === \"sandbox.boot\" ? 2 : 1)"
      ],
      [
        "forgets kinds that were approved before",
        "approvedKinds: [...turn.approvedKinds ?? [], kind]",
        "approvedKinds: [kind]"
      ],
      [
        "forgets with a turn that it was asked to end it",
        "          interruptRequested: turn.interruptRequested || event.data.reason === \"interrupt\"\n        },\n        // A turn",
        "          interruptRequested: false\n        },\n        // A turn"
      ],
      [
        "is idle from the begin of a publication",
        "idleSince: isUnderWay(known) && !isUnderWay(next) && !isActive(sandbox.turn) ? at",
        "idleSince: !isActive(sandbox.turn) ? at"
      ]
    ]),
    ...plantsIn("packages/domain/src/sandbox/rules/Transition.ts", [
      [
        "refuses to terminate a finished sandbox",
        "terminated: { from: [...live, \"succeeded\", \"failed\"]",
        "terminated: { from: [...live]"
      ],
      [
        "keeps what waits when it is over",
        "...abandonPublications(sandbox), ...cancelWaiting(sandbox, \"sandbox_ended\")",
        "...abandonPublications(sandbox)"
      ],
      [
        "publishes on when it is over",
        "...abandonPublications(sandbox), ...cancelWaiting",
        "...cancelWaiting"
      ],
      [
        "calls a turn interrupted that no agent had",
        "sandbox.turn.state === \"pending\" ? \"cancelled\" : state",
        "state"
      ],
      [
        "leaves approvals open at the end of a turn",
        "...closeRequests(sandbox, \"turn_end\"), ",
        ""
      ],
      [
        "leaves questions open at the end of a turn",
        "...questionsOf(sandbox).map(({ question_id }): SandboxEvent =>",
        "...questionsOf({ turn: null }).map(({ question_id }): SandboxEvent =>"
      ],
      [
        "waits on when all is decided",
        "isAwaiting(turn.state) && turn.state !== state ?",
        "isAwaiting(turn.state) && turn.state === state ?"
      ],
      [
        "waits for an answer while an approval waits",
        "approvals > 0 ? \"awaiting_approval\" : questions > 0 ? \"awaiting_answer\"",
        "questions > 0 ? \"awaiting_answer\" : approvals > 0 ? \"awaiting_approval\""
      ],
      [
        "forgets why it was ended",
        "reason: cause === \"released\" ? sandbox.reason :",
        "reason: cause === \"released\" ? \"terminated\" :"
      ]
    ]),
    ...plantsIn("packages/domain/src/sandbox/rules/Turn.ts", [
      [
        "lets a pending turn wait for an approval",
        "pending: [\"running\", \"cancelled\"]",
        "pending: [\"running\", \"awaiting_approval\", \"cancelled\"]"
      ]
    ]),
    ...plantsIn("packages/domain/src/sandbox/rules/Idempotency.ts", [
      [
        "keeps the order of keys in a fingerprint",
        "Object.keys(value).sort().map(",
        "Object.keys(value).map("
      ],
      [
        "sorts lists in a fingerprint",
        "value.map(canonicalJson).join(\",\")",
        "value.map(canonicalJson).sort().join(\",\")"
      ],
      [
        "takes a number for its text in a fingerprint",
        "return JSON.stringify(value)",
        "return String(value)"
      ],
      [
        "answers another request with a bound key",
        "bound === request.fingerprint ?",
        "bound.length === request.fingerprint.length ?"
      ]
    ]),
    ...plantsIn("packages/domain/src/sandbox/rules/LeaseRules.ts", [
      [
        "takes a sandbox from a lost machine at once",
        "Instant.isLessThanOrEqualTo(Instant.addDuration(last, lost), now)",
        "Instant.isLessThanOrEqualTo(last, now)"
      ],
      [
        "counts the wait for a lost machine from the lease alone",
        "workSince === null ? lease.until : Instant.max(lease.until, workSince)",
        "lease.until"
      ],
      [
        "takes unsaved sandboxes of a drained machine",
        "=> drained && !unsaved",
        "=> drained"
      ],
      [
        "leases what another worker has",
        "if (work === null || isHeld(sandbox, now)) return false",
        "if (work === null) return false"
      ],
      [
        "boots more than there is room for",
        ".slice(0, room.boots)",
        ""
      ],
      [
        "does more errands than there is room for",
        ".slice(0, room.errands)",
        ""
      ],
      [
        "forgets what a grant has at work",
        "const turns = new Map(held)",
        "const turns = new Map<string, number>()"
      ],
      [
        "leases what waited shortest first",
        "Instant.Order(a.workSince, b.workSince)) ||",
        "Instant.Order(b.workSince, a.workSince)) ||"
      ],
      [
        "leases by the order of the store",
        "(a.id < b.id ? -1 : 1)",
        "0"
      ],
      [
        "counts errands for the turn of a grant",
        "if (needsSlot(sandbox) && isHeld(sandbox, taker.now))",
        "if (isHeld(sandbox, taker.now))"
      ],
      [
        "does errands after turns, and the last first",
        "].map(({ id }) => id)",
        "].reverse().map(({ id }) => id)"
      ]
    ]),
    ...plantsIn("packages/domain/src/models/rules/Budget.ts", [
      [
        "forgets running requests",
        "saturatingAdd(saturatingAdd(accounts[of].spent, accounts[of].reserved), microUsd) > limit",
        "saturatingAdd(accounts[of].spent, microUsd) > limit"
      ],
      [
        "refuses the last micro of a budget",
        "accounts[of].reserved), microUsd) > limit",
        "accounts[of].reserved), microUsd) >= limit"
      ],
      [
        "names a budget that a wait helps",
        "const of = final ?? short[0]",
        "const of = short[0]"
      ],
      [
        "takes a reservation that may wait for a used-up budget",
        "refusal.of === of && !refusal.held",
        "refusal.of === of"
      ],
      [
        "stays used up after a request was admitted",
        "microUsd), wanted: 0 }",
        "microUsd) }"
      ],
      [
        "keeps the reservation of an ended request",
        "reserved: Math.max(0, account.reserved - reserved)",
        "reserved: account.reserved"
      ],
      [
        "pays for written tokens twice",
        "Math.max(0, input - cachedInput - cacheWrite)",
        "Math.max(0, input - cachedInput)"
      ],
      [
        "rounds a cost down",
        "(total + MILLION - 1n) / MILLION",
        "total / MILLION"
      ],
      [
        "is not used up when all is spent",
        "Math.max(wanted, 1)) > limit",
        "wanted) > limit"
      ]
    ]),
    ...plantsIn("packages/domain/src/models/rules/Credits.ts", [
      [
        "rounds a cost in credits down",
        "+ BigInt(price) - 1n) / BigInt(price)",
        ") / BigInt(price)"
      ],
      [
        "has a balance below nothing",
        "Math.max(0, Number((BigInt(credits) * MICROS - BigInt(chargedMicros)) / MICROS))",
        "Number((BigInt(credits) * MICROS - BigInt(chargedMicros)) / MICROS)"
      ],
      [
        "forgets running requests of credits",
        "saturatingAdd(saturatingAdd(spent, reserved), micros) <= limit",
        "saturatingAdd(spent, micros) <= limit"
      ],
      [
        "tells everyone to wait for credits",
        "held: saturatingAdd(spent, micros) <= limit",
        "held: true"
      ],
      [
        "has no credits while others hold the rest",
        "    : refusal.held\n    ? account\n",
        ""
      ]
    ]),
    ...plantsIn("packages/domain/src/partner/rules/Webhook.ts", [
      [
        "waits longer after the first retry",
        "Duration.minutes(5),",
        "Duration.minutes(50),"
      ],
      [
        "leaves the first wait out",
        "WAITS[attempt - 1]",
        "WAITS[attempt]"
      ],
      [
        "waits as long as it is told",
        "Duration.isGreaterThan(asked, MAX_RETRY_AFTER) ? scheduled : Duration.max(scheduled, asked)",
        "Duration.max(scheduled, asked)"
      ],
      [
        "retries as early as it is told",
        "scheduled : Duration.max(scheduled, asked)",
        "scheduled : asked"
      ],
      [
        "gives up an endpoint that is not found",
        "outcome.status === 410",
        "outcome.status === 404"
      ],
      [
        "takes a redirect for a delivery",
        "outcome.status < 300",
        "outcome.status < 400"
      ],
      [
        "retries before the wait is over",
        "(1 + JITTER * jitter)",
        "(1 - JITTER * jitter)"
      ],
      [
        "skips an event that failed",
        "case \"Retry\":\n      return { cursor: sequence - 1,",
        "case \"Retry\":\n      return { cursor: sequence,"
      ],
      [
        "counts failures from before it was enabled",
        "if (next._tag !== \"Delivered\" && !DateTime",
        "if (sequence < 0 && !DateTime"
      ],
      [
        "signs with replaced secrets for ever",
        "until: secret.until ?? DateTime.addDuration(at, SIGNS_ALONG)",
        "until: secret.until"
      ],
      [
        "lengthens the time of replaced secrets",
        "until: secret.until ?? DateTime",
        "until: DateTime"
      ],
      [
        "signs with all replaced secrets",
        "\n    .slice(0, MAX_REPLACED)",
        ""
      ]
    ]),
    ...plantsIn("packages/domain/src/sandbox/rules/Transition.ts", [
      [
        "denies approvals after the end of their turn",
        "state: outcome, ...more } }]",
        "state: outcome, ...more } }].reverse()"
      ],
      [
        "ends a turn after its sandbox",
        "...before,\n    changed,",
        "changed,\n    ...before,"
      ],
      [
        "cancels messages before it gives publications up",
        "...cancelWaiting(sandbox, \"sandbox_ended\")]),",
        "...cancelWaiting(sandbox, \"sandbox_ended\")].reverse()),"
      ],
      [
        "denies the newest approval first",
        "sandbox.approvals.map(({ approval_id }): SandboxEvent => ({",
        "sandbox.approvals.toReversed().map(({ approval_id }) => ({"
      ],
      [
        "cancels the newest message first",
        "sandbox.waiting.map(({ id }) => ({ type: \"message.cancelled\"",
        "sandbox.waiting.toReversed().map(({ id }) => ({ type: \"message.cancelled\""
      ]
    ]),
    ...plantsIn("packages/domain/src/sandbox/rules/SystemCommand.ts", [
      [
        "tells the error after the status that it led to",
        "...events\n      ])\n    case \"StartTurn\"",
        "...events\n      ].reverse())\n    case \"StartTurn\""
      ],
      [
        "begins the next turn before the trees are restored",
        "...(isLost ? nextTurn(sandbox) : [])\n  ])",
        "...(isLost ? nextTurn(sandbox) : [])\n  ].reverse())"
      ],
      [
        "counts the time of an approval by the clock that decides",
        "{ ...approval, expires_at: after(dateOf(sandbox, now), limits.approval)",
        "{ ...approval, expires_at: after(now, limits.approval)"
      ],
      [
        "counts the time of a question by the clock that decides",
        "{ ...question, expires_at: after(dateOf(sandbox, now), limits.approval)",
        "{ ...question, expires_at: after(now, limits.approval)"
      ],
      [
        "waits for an answer in a turn that is being ended",
        "  if (turn.interruptRequested) {\n    const data",
        "  if (turn.interruptRequested && pending.length < 0) {\n    const data"
      ],
      [
        "asks again what waits already",
        "pending.some(({ question_id }) => question_id === question.question_id)",
        "pending.some(({ question_id }) => question_id === \"\")"
      ]
    ]),
    ...plantsIn("packages/domain/src/sandbox/rules/Approval.ts", [
      [
        "approves calls of an unknown kind for the turn",
        "kind === undefined || kind === \"other\" ||",
        "kind === undefined ||"
      ]
    ]),
    ...plantsIn("packages/domain/src/sandbox/rules/Sandbox.ts", [
      [
        "approves in a turn what was approved in the one before",
        "...(turn === null ? {} : { after: turn.id }),",
        "...(turn === null ? {} : { after: turn.id, approvedKinds: turn.approvedKinds ?? [] }),"
      ],
      [
        "puts the newest publication first",
        "[...sandbox.publications, next]",
        "[next, ...sandbox.publications]"
      ],
      [
        "forgets the number of a pull request",
        "number: data.number ?? known?.number ?? null",
        "number: data.number ?? null"
      ],
      [
        "forgets the head of a pull request",
        "headSha: data.head_sha ?? known?.headSha ?? null",
        "headSha: data.head_sha ?? null"
      ],
      [
        "keeps the error of an earlier publication",
        "error: data.error ?? null",
        "error: data.error ?? known?.error ?? null"
      ],
      [
        "takes a repository in upper case for another one",
        "publication.repo.toLowerCase() === data.repo.toLowerCase()",
        "publication.repo === data.repo"
      ],
      [
        "takes a failed publication for a push",
        "data.action_state === \"idle\" && data.error === undefined",
        "data.action_state === \"idle\""
      ],
      ["dates an event before an earlier one", "recordedAt === null ? now : Instant.max(recordedAt, now)", "now"]
    ])
  ]
}
