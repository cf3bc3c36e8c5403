import { assert, describe, it } from "@effect/vitest"
import {
  distrust,
  isPushed,
  MAX_TRUSTED_REFS,
  names,
  refsToAsk,
  type StartingPoint,
  TrustedRef
} from "@slipway/domain/environment/rules/SetupTrust"
import { type BranchRule, matches } from "@slipway/domain/source/schema/BranchRules"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

const point = (more: Partial<StartingPoint>): StartingPoint => ({
  ref: undefined,
  defaultBranch: "main",
  listed: [],
  on: null,
  isPushedUnmerged: false,
  rules: [],
  ...more
})

describe("a commit", () => {
  it("is trusted on the default branch, by whatever name the sandbox asked for it", () => {
    for (const ref of [undefined, "main", "v1", "a".repeat(40)]) assert.isNull(distrust(point({ ref, on: "main" })))
    assert.isNull(distrust(point({ on: "main", isPushedUnmerged: true })), "who puts it on the default branch has merged it")
  })

  it("is trusted on a ref that an owner listed, unless a sandbox pushed it and no person merged it", () => {
    const listed = ["release/*", "v1"]
    assert.isNull(distrust(point({ ref: "release/2", listed, on: "release/*" })))
    assert.isNull(distrust(point({ ref: "v1", listed, on: "v1" })))
    assert.match(distrust(point({ ref: "v1", listed, on: "v1", isPushedUnmerged: true })) ?? "", /pushed the commit/u)
    assert.match(distrust(point({ ref: "feature", listed, on: "feature" })) ?? "", /neither on the default branch nor/u)
    assert.match(distrust(point({ ref: "feature", listed })) ?? "", /neither on the default branch nor/u)
  })

  it("is never trusted by the name of a branch that sandboxes push to, even where an older version let it be listed", () => {
    for (const ref of ["slipway/c_bbbbbbbbbbbb", "slipway/x/y", "refs/heads/slipway/c_bbbbbbbbbbbb"]) {
      assert.strictEqual(distrust(point({ ref, on: "main" })), `It starts from ${ref}, a branch that a sandbox pushed.`)
      assert.isNotNull(distrust(point({ ref, listed: [ref], on: ref })), ref)
      assert.isNotNull(distrust(point({ listed: [ref], on: ref })), ref)
      assert.isNotNull(distrust(point({ defaultBranch: ref, on: ref })), ref)
      assert.notInclude(refsToAsk({ ref: undefined, defaultBranch: "main", listed: [ref], rules: [] }), ref)
      assert.isEmpty(refsToAsk({ ref, defaultBranch: "main", listed: [], rules: [] }))
    }
  })
})

it("a branch that a grant may push to is never trusted, listed or not; the default branch is", () => {
  const rules = ["feature/*" as BranchRule, "main" as BranchRule]
  for (const ref of ["feature/x", "refs/heads/feature/x"]) {
    assert.strictEqual(distrust(point({ ref, rules, on: "main" })), `It starts from ${ref}, a branch that an access grant may push to.`)
    assert.isEmpty(refsToAsk({ ref, defaultBranch: "main", listed: [ref], rules }))
  }
  for (const listed of ["feature/x", "feature/*"]) {
    assert.isNotNull(distrust(point({ ref: "v1", rules, listed: [listed], on: listed })), listed)
    assert.deepStrictEqual(refsToAsk({ ref: "v1", defaultBranch: "main", listed: [listed], rules }), ["main"])
  }
  assert.isNull(distrust(point({ rules, on: "main" })))
  assert.isNull(distrust(point({ ref: "main", rules, on: "main" })))
})

it("the history of each ref is asked for once", () => {
  assert.deepStrictEqual(refsToAsk({ ref: "v1", defaultBranch: "main", listed: ["v1", "main", "v1"], rules: [] }), ["main", "v1"])
})

describe("a listed ref", () => {
  it("is one of 50 at most", () => assert.strictEqual(MAX_TRUSTED_REFS, 50))

  it.each([
    ["slipway/c_b", "Expected another branch than those that sandboxes push to"],
    ["a".repeat(40), "Expected a branch or a tag, not a commit"],
    ["*", "Expected a branch, a tag, or a pattern such as release/*"],
    ["", "Expected 1 to 255 characters"]
  ])("that is invalid is told what it should be: %j", (ref, problem) => {
    assert.include(String(Result.flip(Schema.decodeUnknownResult(TrustedRef)(ref))), problem)
  })

  it("is the name of a branch or a tag, or all below a folder", () => {
    const accepts = (ref: string) => Result.isSuccess(Schema.decodeUnknownResult(TrustedRef)(ref))
    for (const ref of ["develop", "v1.2", "release/*", "a/b/*", "s", "slipway-docs", "slipways/*", "x".repeat(255)]) {
      assert.isTrue(accepts(ref), ref)
    }
    for (
      const ref of ["", "*", "/*", "rel*", "*/x", "a/**", "slipway/*", "slipway/c_b", "refs/heads/slipway/c_b", "s/..", "a b", "-a",
        "a".repeat(40), "a".repeat(64), "x".repeat(256), "a\0b", "a..b/*"]
    ) assert.isFalse(accepts(ref), ref)
  })

  it("names itself, or what is below its folder, and nothing else", () => {
    for (const [listed, ref] of [["develop", "develop"], ["release/*", "release/1"], ["release/*", "release/a/b"]] as const) {
      assert.isTrue(names(listed, ref), `${listed} ${ref}`)
    }
    for (
      const [listed, ref] of [["develop", "Develop"], ["develop", "develop/x"], ["release/*", "release/"], ["release/*", "releases/1"], [
        "release/*",
        "a/release/1"
      ], ["release/*", "release"]] as const
    ) assert.isFalse(names(listed, ref), `${listed} ${ref}`)
  })
})

// Inputs that an attacker controls: the requested ref, the branches, and where a person put a sandbox's commit.
const Name = Schema.Literals(["main", "develop", "release/1", "feature", "slipway/c_bbbbbbbbbbbb", "refs/heads/slipway/c_c"])
const Listed = Schema.Literals(["develop", "release/*", "slipway/*", "slipway/c_bbbbbbbbbbbb"])

it.prop("no commit is trusted that is on neither the default branch nor a listed ref of people, nor one of sandboxes alone", {
  ref: Schema.UndefinedOr(Name),
  defaultBranch: Schema.Literals(["main", "develop", "slipway/c_bbbbbbbbbbbb"]),
  listed: Schema.Array(Listed),
  /** Branches with the commit in their history. */
  holding: Schema.Array(Name),
  isPushedUnmerged: Schema.Boolean,
  rules: Schema.Array(Schema.Literals(["slipway/*", "release/*", "dev*", "feature", "*"]))
}, ({ defaultBranch, holding, isPushedUnmerged, listed, ref, rules: given }) => {
  const rules = given.map((rule) => rule as BranchRule)
  const isPushable = (name: string) => name !== defaultBranch && rules.some((rule) => matches(rule, name.replace("/*", "/1")))
  const asked = refsToAsk({ ref, defaultBranch, listed, rules })
  const on = asked.find((name) => holding.some((branch) => names(name, branch))) ?? null
  const isTrusted = distrust({ ref, defaultBranch, listed, on, isPushedUnmerged, rules }) === null
  const people = holding.filter((branch) => !branch.includes("slipway/"))
  const isMerged = people.includes(defaultBranch as typeof people[number])
  const isListed = people.some((branch) => listed.some((name) => !name.startsWith("slipway/") && !isPushable(name) && names(name, branch)))
  const isAskedOfSandboxes = ref !== undefined && (isPushed(ref) || isPushable(ref))
  assert.strictEqual(isTrusted, !isAskedOfSandboxes && (isMerged || isListed && !isPushedUnmerged))
}, { arbitrary: { runs: 2_000 } })
