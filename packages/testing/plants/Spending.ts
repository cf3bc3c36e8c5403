import { type Plants, plantsIn } from "./Plant.ts"

const isCharged = "if (known?.state === \"charged\") return"
const taken = "Array.from(charges.get(organizationId)?.values() ?? []).reverse()"

export const plants: Plants = {
  port: "Spending",
  subject: "packages/testing/test/models/Spending.suites.ts",
  plants: [
    ...plantsIn("packages/domain/memory/models/SpendingMemory.ts", [
      ["reserves twice for one call", "if (calls.has(call.id)) return", ""],
      ["charges a call twice", isCharged, ""],
      ["forgets calls that are under way", "state !== \"open\" && DateTime.isLessThan(at, before)", "DateTime.isLessThan(at, before)"],
      ["forgets young calls", "state !== \"open\" && DateTime.isLessThan(at, before)", "state !== \"open\""],
      ["forgets all calls at once", "DateTime.isLessThan(at, before)).slice(0, limit)", "DateTime.isLessThan(at, before))"],
      ["charges nothing for a call that was released", isCharged, "if (known !== undefined && known.state !== \"open\") return"],
      ["charges nothing for a call without a reservation", isCharged, "if (known === undefined || known.state === \"charged\") return"],
      ["gives back what is reserved for all sandboxes", "call.sandboxId !== sandboxId || ", ""],
      ["counts a request that never went out", "microUsd === null ? nothing : { calls: 1", "{ calls: 1"],
      ["knows the tokens of the last call alone", "addTokenCounts(before?.tokens ?? noTokenCounts, tokens)", "tokens"],
      ["keeps what is reserved for a call that is charged", "giveBack(call, known?.reserved ?? 0, microUsd", "giveBack(call, 0, microUsd"],
      ["reserves what a budget refuses", "afterReserving(accounts, refusal, microUsd)", "afterReserving(accounts, null, microUsd)"],
      ["reserves of the credits what a budget refuses", "purse !== null && refusal === short", "purse !== null"],
      ["says that a budget is used up before it says that there are no credits",
        "short ?? refusalOf(accounts, limitsOf(call.grantId, call.budget), microUsd)",
        "refusalOf(accounts, limitsOf(call.grantId, call.budget), microUsd) ?? short"],
      ["refuses new work for a budget before it does for the credits", "if (short !== null) return short\n      const accounts",
        "const accounts"],
      ["holds a grant whose budget was lifted to that of all", "budgets.get(grantId) ?? null", "budgets.get(grantId) ?? limits.grant"],
      ["forgets the own budget of a sandbox when it reserves", "limitsOf(call.grantId, call.budget)", "limitsOf(call.grantId)"],
      ["begins new work beyond the own budget of a sandbox", "const applied = limitsOf(work.grantId, own)",
        "const applied = limitsOf(work.grantId)"],
      ["forgets the own budget with the next call that does not name it", "budget: budget ?? before?.budget ?? null",
        "budget: budget ?? null"],
      ["has another limit of a sandbox than it says", "sandboxLimit: limits.sandbox", "sandboxLimit: limits.grant"],
      ["takes the default for the grant's own budget", "budgets.delete(grantId)", "budgets.set(grantId, standing(grantId).budget)"],
      ["takes the budget of nothing for none", "else budgets.set(grantId, budget)", "else budgets.set(grantId, budget || null)"],
      ["says that a sandbox cost what its grant did", "costMicroUsd: account.spent",
        "costMicroUsd: accountsOf({ grantId: known.grantId, sandboxId }).grant.spent"],
      ["counts credits beyond what a number can tell", "saturatingAdd(before?.micros ?? 0, micros)", "(before?.micros ?? 0) + micros"],
      ["has credits of each grant by itself", "credits.organization(grantId)", "Effect.succeed(grantId)"],
      ["keeps of the credits what was reserved for a sandbox", "afterCharging(purse.account, micros, 0)", "purse.account"],
      ["keeps of the credits what was reserved for a call", "afterCharging(purse.account, known?.micros ?? 0, micros)",
        "afterCharging(purse.account, 0, micros)"],
      ["refuses a sandbox for what others of its grant spent", "isExhausted(accounts.sandbox, applied.sandbox)",
        "isExhausted(accounts.grant, applied.sandbox)"],
      ["tells of sandboxes that nothing is reserved for any more", "filter(({ state }) => state === \"open\")", "filter(() => true)"],
      ["tells of the same sandboxes on each page", "after === null || id > after", "true"],
      ["tells of a sandbox for each of its calls", "Array.from(new Set(open))", "open"],
      ["tells of sandboxes in the order of their calls", "Array.from(new Set(open)).sort()", "Array.from(new Set(open))"],
      ["tells of more sandboxes than were asked for", "id > after).slice(0, limit)", "id > after)"],
      ["says that a budget is used up because a request had to wait", "afterReserving(accounts, refusal, microUsd)",
        "afterReserving(accounts, refusal === null ? null : { ...refusal, held: false }, microUsd)"],
      ["refuses new sandboxes although a budget is left", "isExhausted(accounts.grant, applied.grant)",
        "isExhausted(accounts.grant, applied.sandbox)"]
    ]),
    ...plantsIn("packages/domain/memory/partner/PartnerStoreMemory.ts", [
      ["tells oldest charges first", taken, taken.replace(".reverse()", "")],
      ["tells the first place of a charge, not its last", "taken.delete(sandboxId)", ""],
      ["tells the last charge of a sandbox alone", "micros: saturatingAdd(before, micros)", "micros"],
      ["leaves the balance as it was", "balanceOf(creditsOf(partners, organizationId), spent)",
        "balanceOf(creditsOf(partners, organizationId), 0)"]
    ])
  ]
}
