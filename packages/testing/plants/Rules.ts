import { type Plants, plantsIn } from "./Plant.ts"

/** Faults of the pure rules, for the published laws only: `npm run mutants` judges the rules' own tests. */
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
        "restoring !== null || owesCheckpoint || publications",
        "restoring !== null || publications"
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
        "leaves approvals open when it interrupts",
        "...denyApprovals(sandbox, \"interrupt\"),",
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
      ]
    ]),
    ...plantsIn("packages/domain/src/sandbox/rules/SystemCommand.ts", [
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
        "...denyApprovals(sandbox, \"turn_end\"), ",
        ""
      ],
      [
        "waits on when all is decided",
        "turn?.state === \"awaiting_approval\" && !others",
        "turn?.state === \"awaiting_approval\" && others"
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
    ])
  ]
}
