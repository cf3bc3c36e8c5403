import { type Plants, plantsIn } from "./Plant.ts"

const page = ".slice(after, after + limit)"
const isTold = "feed.some((told) => told.type === fact.type && naturalId(told) === naturalId(fact))"
const movement = "[{ claimId, credits, at }, ...ledger.get(organizationId) ?? []]"
const gives = "if (credits > 0) ledger.set(organizationId, [{ claimId, credits, at }"

export const plants: Plants = {
  port: "PartnerStore",
  subject: "packages/testing/test/partner/PartnerStore.suites.ts",
  plants: [
    ...plantsIn("packages/domain/memory/sandbox/SandboxStoreMemory.ts", [
      ["tells no task of a creation", "if (tasks !== null && organizationId !== null) yield", "if (false) yield"],
      ["tells no pull request of a change", "if (tasks !== null && opened !== null && events", "if (false && events"],
      ["tells a pull request that no event reports", "opened !== null && events.length > 0", "opened !== null"]
    ]),
    ...plantsIn("packages/domain/memory/partner/PartnerStoreMemory.ts", [
      ["tells the event of the cursor again", page, ".slice(Math.max(0, after - 1), after + limit)"],
      ["serves all that comes after the cursor", page, ".slice(after)"],
      ["tells a fact twice", `if (${isTold}) continue`, ""],
      ["takes facts of two types about one thing for one", isTold, isTold.replace("told.type === fact.type && ", "")],
      ["tells a fact in one feed alone", isTold, isTold.replace("feed.", "Array.from(feeds.values()).flat().")],
      ["numbers the events of all feeds together", "sequence: feed.length + 1", "sequence: Array.from(feeds.values()).flat().length + 1"],
      ["records events at a time of its own", "createdAt: at })", "createdAt: DateTime.makeUnsafe(0) })"],
      ["creates claims of grants that are not there", "if (grants?.some(({ id }) => id === terms.grantId) === false) return",
        "if (false) return"],
      ["creates a claim again with other terms", "createClaim(claims.get(terms.claimId) ?? null", "createClaim(null"],
      ["gives the credits of a claim again", gives,
        gives.replace("if (credits > 0) ", "").replace("credits, at", "credits: claim.terms.creditAmount, at")],
      ["gives the credits to the grant", "if (credits > 0) ledger.set(organizationId", "if (credits > 0) ledger.set(claim.terms.grantId"],
      ["tells movements oldest first", movement, "[...ledger.get(organizationId) ?? [], { claimId, credits, at }]"],
      ["takes the last claim for the touch", "{ recipient: touchOf(partners, recipient), organization: touchOf(partners, organizationId) }",
        "{ recipient: null, organization: null }"],
      ["counts a touch in every organization of the recipient", "`${organizationId} ${recipientId}`", "recipientId"],
      ["connects a project again elsewhere", "connectProject(projects.get(project.projectId) ?? null", "connectProject(null"],
      ["counts projects for the touch of the organization", "touchOf(partners, ofRecipient(project))",
        "touchOf(partners, project.organizationId)"],
      ["forgets that an organization paid", "if (decision.paid) paid.add(invoice.organizationId)", ""],
      ["takes any invoice for the first payment", "if (decision.paid) paid", "paid"],
      ["takes an invoice again that differs", "payInvoice(invoices.get(invoice.invoiceId) ?? null", "payInvoice(null"],
      ["lists claims oldest first", "terms.grantId === grantId).reverse()", "terms.grantId === grantId)"],
      ["lists the claims of all grants for one", "grantId === null || terms.grantId === grantId", "true"],
      ["counts credits beyond what a number can tell", "=> saturatingAdd(sum, credits)", "=> sum + credits"],
      ["tells a task of the project of its last repository", "sandbox.repos[0]?.fullName", "sandbox.repos.at(-1)?.fullName"],
      ["counts tasks for the touch of the organization", "touchOf(partners, ofRecipient(claimant))", "touchOf(partners, organizationId)"]
    ])
  ]
}
