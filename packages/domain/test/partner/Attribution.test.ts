import { assert, describe, it } from "@effect/vitest"
import {
  type Claim,
  claim,
  connectProject,
  conversionId,
  createClaim,
  openPullRequest,
  payInvoice,
  projectFor,
  pullRequestId,
  startTask,
  type Task,
  type Touch
} from "@slipway/domain/partner/rules/Attribution"
import { Claimant, ClaimTerms, Invoice, Project } from "@slipway/domain/partner/schema/Attribution"
import * as DateTime from "effect/DateTime"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

const at = (minute: number) => DateTime.makeUnsafe(`2026-11-21T02:${String(minute).padStart(2, "0")}:00.000Z`)
const terms: ClaimTerms = {
  claimId: "0192f5a0-5c3e-4b1c-9b7e-2f4a8c6d1e00",
  grantId: "0192f5a0-5c3e-4b1c-9b7e-2f4a8c6d1e01",
  leadId: "lead",
  variant: "b",
  creditAmount: 500
}
const lead = { claimId: terms.claimId, leadId: "lead", variant: "b" }
const somebody: Claimant = { recipientId: "user_1", organizationId: "0192f5a0-5c3e-4b1c-9b7e-2f4a8c6d1e02" }
const pending: Claim = { terms, createdAt: at(1), claimed: null }
const touch: Touch = { ...lead, grantId: terms.grantId, claimedAt: at(10) }
const other: Touch = { grantId: "g2", claimId: "c2", leadId: "earlier", variant: "a", claimedAt: at(5) }
const none = { recipient: null, organization: null }
const conflict = (result: Result.Result<unknown, { readonly message: string }>) =>
  Result.isFailure(result) ? result.failure.message : assert.fail("it was recorded")

describe("creating a claim", () => {
  it("reserves it and tells its grant", () => {
    assert.deepStrictEqual(Result.getOrThrow(createClaim(null, terms, at(1))), {
      recorded: "new",
      claim: pending,
      tell: [{
        grantId: terms.grantId,
        fact: { type: "credit_claim.created", data: { ...lead, creditAmount: 500, createdAt: at(1), status: "pending", claimedAt: null } }
      }]
    })
  })
  it("again is known and adds no event, also when it was claimed since", () => {
    for (const known of [pending, { ...pending, claimed: { ...somebody, at: at(2) } }]) {
      assert.deepStrictEqual(Result.getOrThrow(createClaim(known, { ...terms }, at(9))), { recorded: "known", claim: known, tell: [] })
    }
  })
  it.each<Partial<ClaimTerms>>([{ grantId: somebody.organizationId }, { leadId: "x" }, { variant: "x" }, { creditAmount: 501 }])(
    "again with %o is a conflict",
    (change) =>
      assert.strictEqual(
        conflict(createClaim(pending, { ...terms, ...change }, at(9))),
        `Claim ${terms.claimId} is known already, with other values.`
      )
  )
})

it("a conflict is told apart by its tag", () =>
  assert.strictEqual(Result.getOrThrow(Result.flip(createClaim(pending, { ...terms, variant: "x" }, at(9))))._tag, "FactConflict"))

describe("claiming", () => {
  it("gives the credits and sets both touches, the first time", () => {
    const claiming = Result.getOrThrow(claim(pending, somebody, none, at(10)))
    assert.deepStrictEqual(claiming, {
      recorded: "new",
      claim: { ...pending, claimed: { ...somebody, at: at(10) } },
      credits: 500,
      touch: { recipient: touch, organization: touch },
      tell: [{
        grantId: terms.grantId,
        fact: { type: "credit_claim.claimed", data: { ...lead, creditAmount: 500, createdAt: at(1), status: "claimed", claimedAt: at(10) } }
      }]
    })
  })
  it("a later terms replaces neither touch, gives its credits and tells its own grant", () => {
    const both = Result.getOrThrow(claim(pending, somebody, { recipient: other, organization: other }, at(10)))
    assert.deepStrictEqual(both.touch, none)
    assert.deepStrictEqual([both.credits, both.tell.map(({ grantId }) => grantId)], [500, [terms.grantId]])
    const organization = Result.getOrThrow(claim(pending, somebody, { recipient: null, organization: other }, at(10)))
    assert.deepStrictEqual(organization.touch, { recipient: touch, organization: null })
    const recipient = Result.getOrThrow(claim(pending, somebody, { recipient: other, organization: null }, at(10)))
    assert.deepStrictEqual(recipient.touch, { recipient: null, organization: touch })
  })
  const claimed: Claim = { ...pending, claimed: { ...somebody, at: at(10) } }
  it("again for the same is known, gives no credits, sets no touch and adds no event", () => {
    assert.deepStrictEqual(Result.getOrThrow(claim(claimed, { ...somebody }, none, at(20))), {
      recorded: "known",
      claim: claimed,
      credits: 0,
      touch: none,
      tell: []
    })
  })
  it.each<Partial<Claimant>>([{ recipientId: "user_2" }, { organizationId: terms.claimId }])(
    "again for %o is a conflict",
    (change) =>
      assert.strictEqual(
        conflict(claim(claimed, { ...somebody, ...change }, none, at(20))),
        `The claiming of ${terms.claimId} is known already, with other values.`
      )
  )
})

describe("connecting a project", () => {
  const project: Project = { projectId: "p", ...somebody, repo: "acme/shop", connectedAt: at(10) }
  it.each([["at the moment of the claim", 10, true], ["later", 11, true], ["before", 9, false]] as const)(
    "%s: told %o",
    (_, minute, isTold) => {
      const given = { ...project, connectedAt: at(minute) }
      assert.deepStrictEqual(Result.getOrThrow(connectProject(null, given, touch)), {
        recorded: "new",
        tell: isTold
          ? [{ grantId: terms.grantId, fact: { type: "project.connected", data: { ...lead, occurredAt: at(minute), projectId: "p" } } }]
          : []
      })
    }
  )
  it("by somebody without a touch adds no event", () =>
    assert.deepStrictEqual(Result.getOrThrow(connectProject(null, project, null)), { recorded: "new", tell: [] }))
  it("again adds no event, also when there is a touch by now", () =>
    assert.deepStrictEqual(Result.getOrThrow(connectProject({ ...project }, project, touch)), { recorded: "known", tell: [] }))
  it.each<Partial<Project>>([{ recipientId: "x" }, { organizationId: terms.claimId }, { repo: "acme/two" }, { connectedAt: at(11) }])(
    "again with %o is a conflict",
    (change) =>
      assert.strictEqual(
        conflict(connectProject(project, { ...project, ...change }, touch)),
        "Project p is known already, with other values."
      )
  )
})

describe("a task", () => {
  const task: Task = { taskId: "c_aaaaaaaaaaaa", projectId: "p", touch }
  it("of somebody with a touch is told when it is created", () => {
    assert.deepStrictEqual(startTask(task, at(3)), [
      { grantId: terms.grantId, fact: { type: "task.started", data: { ...lead, occurredAt: at(3), taskId: task.taskId, projectId: "p" } } }
    ])
    assert.deepStrictEqual(
      startTask({ ...task, projectId: null }, at(3)).map(({ fact }) => "projectId" in fact.data && fact.data.projectId),
      [null]
    )
  })
  it("counts for whom it counted when it was created, when its pull request is opened", () => {
    assert.deepStrictEqual(openPullRequest(task, "id", at(4)), [{
      grantId: terms.grantId,
      fact: { type: "pull_request.opened", data: { ...lead, occurredAt: at(4), pullRequestId: "id", taskId: task.taskId, projectId: "p" } }
    }])
  })
  it("without a touch adds no event, nor does its pull request", () => {
    assert.deepStrictEqual(startTask({ ...task, touch: null }, at(3)), [])
    assert.deepStrictEqual(openPullRequest({ ...task, touch: null }, "id", at(3)), [])
  })
})

describe("the project of a task", () => {
  const projectAt = (projectId: string, minute: number, repo = "acme/shop", organizationId = somebody.organizationId): Project => ({
    ...somebody,
    projectId,
    organizationId,
    repo,
    connectedAt: at(minute)
  })
  it("is the organization's first one for the repository, whatever its case", () => {
    const projects = [projectAt("c", 2), projectAt("b", 1), projectAt("a", 1), projectAt("other", 0, "acme/other"),
      projectAt("theirs", 0, "acme/shop", terms.claimId)]
    assert.strictEqual(projectFor(projects, somebody.organizationId, "Acme/Shop"), "a")
    assert.strictEqual(projectFor([projectAt("a", 2), projectAt("b", 1)], somebody.organizationId, "acme/shop"), "b")
    assert.strictEqual(projectFor([projectAt("a", 1), projectAt("b", 1)], somebody.organizationId, "acme/shop"), "a")
  })
  it("is null where there is no project", () => assert.isNull(projectFor([projectAt("a", 1)], somebody.organizationId, "acme/docs")))
})

describe("a paid invoice", () => {
  const invoice: Invoice = {
    invoiceId: "i",
    organizationId: somebody.organizationId,
    kind: "subscription_initial",
    amountMinor: 1,
    currency: "EUR",
    paidAt: at(10)
  }
  const pay = (change: Partial<Invoice>, organization: { readonly touch: Touch | null; readonly paid: boolean }) => {
    const { paid, tell } = Result.getOrThrow(payInvoice(null, { ...invoice, ...change }, organization, "id"))
    return [paid, tell.length] as const
  }
  it("that is the first initial one is a conversion, and uses it up", () => {
    assert.deepStrictEqual(Result.getOrThrow(payInvoice(null, invoice, { touch, paid: false }, "id")), {
      recorded: "new",
      paid: true,
      tell: [{ grantId: terms.grantId, fact: { type: "conversion.paid", data: { ...lead, occurredAt: at(10), conversionId: "id" } } }]
    })
  })
  it.each(
    [
      ["the second initial one", {}, { touch, paid: true }, [true, 0]],
      ["before the claim", { paidAt: at(9) }, { touch, paid: false }, [true, 0]],
      ["before any claim", {}, { touch: null, paid: false }, [true, 0]],
      ["a renewal", { kind: "subscription_renewal" }, { touch, paid: false }, [false, 0]],
      ["another kind", { kind: "other" }, { touch, paid: false }, [false, 0]],
      ["of nothing", { amountMinor: 0 }, { touch, paid: false }, [false, 0]]
    ] as const
  )("%s adds no event", (_, change, organization, expected) => assert.deepStrictEqual(pay(change, organization), expected))
  it("again changes nothing, whatever came between", () => {
    for (const paid of [true, false]) {
      assert.deepStrictEqual(Result.getOrThrow(payInvoice({ ...invoice }, invoice, { touch, paid }, "id")), {
        recorded: "known",
        paid,
        tell: []
      })
    }
  })
  it.each<Partial<Invoice>>([{ organizationId: terms.claimId }, { kind: "other" }, { amountMinor: 2 }, { currency: "USD" }, {
    paidAt: at(11)
  }])(
    "again with %o is a conflict",
    (change) =>
      assert.strictEqual(
        conflict(payInvoice(invoice, { ...invoice, ...change }, { touch, paid: false }, "id")),
        "Invoice i is known already, with other values."
      )
  )
})

describe("what comes in", () => {
  const accepts = (schema: Schema.Codec<unknown, unknown>, value: unknown) => Result.isSuccess(Schema.decodeUnknownResult(schema)(value))
  const at = "2026-11-21T02:41:00.000Z"
  const project = { projectId: "p", ...somebody, repo: "acme/shop", connectedAt: at }
  const invoice = { invoiceId: "i", organizationId: somebody.organizationId, kind: "other", amountMinor: 0, currency: "EUR", paidAt: at }
  const samples = [
    ["a claim", ClaimTerms, terms],
    ["a claimant", Claimant, somebody],
    ["a project", Project, project],
    ["an invoice", Invoice, invoice]
  ] as const

  it.each(samples)("%s has all of its fields", (_, schema, sample) => {
    assert.isTrue(accepts(schema, sample))
    for (const key of Object.keys(sample)) {
      assert.isFalse(accepts(schema, Object.fromEntries(Object.entries(sample).filter(([name]) => name !== key))), key)
    }
  })
  it.each(
    [
      ["a claim's lead", ClaimTerms, terms, "leadId"],
      ["a claim's variant", ClaimTerms, terms, "variant"],
      ["a recipient", Claimant, somebody, "recipientId"],
      ["a project's id", Project, project, "projectId"],
      ["an invoice's id", Invoice, invoice, "invoiceId"]
    ] as const
  )("%s has 1 to 200 characters", (_, schema, sample, key) => {
    assert.deepStrictEqual([0, 1, 200, 201].map((length) => accepts(schema, { ...sample, [key]: "x".repeat(length) })), [false, true, true,
      false])
  })
  it.each(
    [
      ["claims and grants have UUIDs", ClaimTerms, terms, { claimId: ["c"], grantId: ["g"] }],
      ["credits are a whole number from 1", ClaimTerms, terms, { creditAmount: [0, 1.5, 2 ** 53] }],
      ["organizations have UUIDs", Claimant, somebody, { organizationId: ["acme"] }],
      ["projects have a repository and a time", Project, project, {
        repo: ["shop"],
        connectedAt: ["today", "2026-11-21", "2026-11-21T02:41:00Z", "2026-11-21T02:41:00.000+01:00", "2026-11-21T02:41:00.1234Z",
          "2026-02-30T00:00:00.000Z", "1969-12-31T23:59:59.999Z", "0000-01-01T00:00:00.000Z", "1870-01-01T00:00:00.000Z",
          "+012026-11-21T02:41:00.000Z"]
      }],
      ["amounts are whole numbers from 0", Invoice, invoice, { amountMinor: [-1, 1.5, 2 ** 53] }],
      ["currencies are three capitals", Invoice, invoice, { currency: ["eur", "EURO", "EU", "AEUR"] }],
      ["invoices have a known kind and a time", Invoice, invoice, { kind: ["refund", ""], paidAt: ["now"] }]
    ] as const
  )("%s", (_, schema, sample, wrong) => {
    for (const [key, values] of Object.entries(wrong)) {
      for (const value of values) assert.isFalse(accepts(schema, { ...sample, [key]: value }), key)
    }
  })
  it("times are from 1970 to 9999", () => {
    for (
      const connectedAt of ["1970-01-01T00:00:00.000Z", "1999-12-31T23:59:59.900Z", "2000-01-01T00:00:00.099Z", "9999-12-31T23:59:59.999Z"]
    ) {
      assert.isTrue(accepts(Project, { ...project, connectedAt }), connectedAt)
    }
  })
  it("UUIDs are the same in any case", () => {
    const shouted = { ...terms, claimId: terms.claimId.toUpperCase(), grantId: terms.grantId.toUpperCase() }
    assert.deepStrictEqual(Schema.decodeUnknownSync(ClaimTerms)(shouted), terms)
    assert.deepStrictEqual(
      Schema.decodeUnknownSync(Claimant)({ ...somebody, organizationId: somebody.organizationId.toUpperCase() }),
      somebody
    )
  })
  it("an invoice is of any of three kinds and any amount", () => {
    for (const kind of ["subscription_initial", "subscription_renewal", "other"]) assert.isTrue(accepts(Invoice, { ...invoice, kind }))
    assert.isTrue(accepts(Invoice, { ...invoice, amountMinor: Number.MAX_SAFE_INTEGER }))
  })
})

describe("ids", () => {
  const ids = { derive: (name: string) => name }
  it("of a conversion and of a pull request are derived from what they are of (docs/decisions/11.1)", () => {
    assert.strictEqual(conversionId(ids, "o"), "conversion/o")
    assert.strictEqual(pullRequestId(ids, { host: "github.com", repo: "acme/shop", number: 7 }), "pr/github.com/acme/shop/7")
  })
})
