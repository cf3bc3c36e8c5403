import { type Plants, plantsIn } from "./Plant.ts"

const nothing =
  "{ usage: { llmRequestCount: 0, costMicroUsd: 0, creditsChargedMicros: 0 }, tokens: { input: 0, cachedInput: 0, output: 0 } }"
const charge = "yield* spending.charge(call, cost, counts)"

export const plants: Plants = {
  port: "ModelGateway",
  subject: "packages/testing/test/models/ModelGateway.suites.ts",
  plants: plantsIn("packages/domain/memory/models/ModelGatewayMemory.ts", [
    ["gives a token that can be guessed", "ids.random(\"0123456789abcdef\", 64)", "ids.random(\"0123456789abcdef\", 16)"],
    ["gives a sandbox the same token again", "ids.random(\"0123456789abcdef\", 64)", "Effect.succeed(ids.digest(sandboxId))"],
    ["takes the token of an ended session", "sessions.delete(token)", "undefined"],
    ["takes tokens in capitals", "sessions.get(Redacted.value(token))\n        if",
      "sessions.get(Redacted.value(token).toLowerCase().slice(0, 64))\n        if"],
    ["lets a request go on when its session ends", "Deferred.done(session.cut, Exit.void)", "Effect.void"],
    ["charges nothing for a request that was cut", charge, `if (served) ${charge}`],
    ["charges a request no tokens", charge, "yield* spending.charge(call, cost)"],
    ["leaves reserved what an earlier session reserved", "yield* spending.release(sandboxId)", nothing],
    ["counts from the beginning of the session", "{ ...spent, refusals: 0", `{ ...${nothing}, refusals: 0`],
    ["says of a forgotten sandbox that it used nothing, and keeps what is reserved", "forget: spending.release",
      `forget: () => Effect.succeed(${nothing})`],
    ["does not count what was refused", "refusals: refusals + 1", "refusals"],
    ["says that a budget refused what the credits did", "refusedFor: codeOf(failure)", "refusedFor: \"budget_exceeded\""],
    ["forgets why it refused when it serves", "...now,\n          usage: addUsage", "...now, refusedFor: null,\n          usage: addUsage"],
    ["says that the provider is in trouble when it answers again", "({ trouble: _trouble, ...now })", "(now)"],
    ["tells the tokens of the last request", "addTokenCounts(now.tokens, counts)", "counts"],
    ["tells the cost of the last request", "addUsage(now.usage, {", "addUsage({ ...now.usage, costMicroUsd: 0 }, {"],
    ["counts no credits", "creditsChargedMicros: spending.creditMicros(cost)", "creditsChargedMicros: 0"],
    ["charges a grant of its own", "{ id: yield* ids.uuid7, sandboxId, grantId, budget }",
      "{ id: yield* ids.uuid7, sandboxId, grantId: sandboxId, budget }"],
    ["forgets the own budget of a sandbox", "{ id: yield* ids.uuid7, sandboxId, grantId, budget }",
      "{ id: yield* ids.uuid7, sandboxId, grantId }"],
    ["tells agents that the model writes as much as it reads", "outputTokens: upstream.outputTokens",
      "outputTokens: upstream.contextTokens"],
    ["tells listeners the present account alone", "SubscriptionRef.changes(session.account)",
      "SubscriptionRef.changes(yield* SubscriptionRef.make(yield* SubscriptionRef.get(session.account)))"]
  ])
}
