import { assert, describe, it } from "@effect/vitest"
import { type BranchRule, BranchRules, matches, mayPush, mayPushAny } from "@slipway/domain/source/schema/BranchRules"
import type { PullRequest } from "@slipway/domain/source/schema/PullRequest"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { branchProblem, pullRequestProblem } from "@slipway/domain/source/schema/WritableBranch"
import * as Schema from "effect/Schema"

const rule = (text: string) => text as BranchRule
const accepts = Schema.is(BranchRules)

describe("a rule for branches", () => {
  it.each<readonly [rule: string, branch: string, matches: boolean]>([
    ["feature/x", "feature/x", true],
    ["feature/x", "feature/X", false],
    ["feature/x", "feature/x2", false],
    ["feature/*", "feature/x", true],
    ["feature/*", "feature/x/y", true],
    ["feature/*", "feature/", true],
    ["feature/*", "feature", false],
    ["feature/*", "a/feature/x", false],
    ["*", "anything/at.all", true],
    ["*-fix", "a-fix", true],
    ["*-fix", "-fix", true],
    ["*-fix", "a-fixed", false],
    ["a*b*c", "abc", true],
    ["a*b*c", "a.b.b.c", true],
    ["a*b*c", "acb", false],
    ["ab*ba", "aba", false],
    ["ab*ba", "abba", true],
    ["a**b", "ab", true]
  ])("%s and %s: %s", (pattern, branch, expected) => {
    assert.strictEqual(matches(rule(pattern), branch), expected)
  })

  it.prop("means the same as the regular expression of its parts", {
    pattern: Schema.Array(Schema.Literals(["*", "a", "b", "/", ".", "+"])).check(Schema.isBetweenLength(1, 7)),
    branch: Schema.Array(Schema.Literals(["a", "b", "/", ".", "+"])).check(Schema.isBetweenLength(0, 7))
  }, ({ branch, pattern }) => {
    const escaped = pattern.map((part) => part === "*" ? ".*" : part.replace(/[.+/]/u, "\\$&")).join("")
    assert.strictEqual(matches(rule(pattern.join("")), branch.join("")), new RegExp(`^${escaped}$`, "u").test(branch.join("")))
  }, { arbitrary: { runs: 2_000 } })

  it("takes steps in proportion to hostile names, not more", () => {
    const hostile = "a".repeat(255)
    for (let n = 0; n < 1_000; n++) assert.isFalse(matches(rule("a*a*a*a*b"), hostile))
  })

  it("is a name or a pattern that git could have as a branch", () => {
    for (const good of ["feature/*", "*", "a", "release/1.x-*", "ü/*"]) assert.isTrue(accepts([good]), good)
    for (const bad of ["", "a b", "-a", "a..b", "/a", "a/", "a~1", "a\u0000b", "x".repeat(256), "*****", "a\nb", "0".repeat(40)]) {
      assert.isFalse(accepts([bad]), bad)
    }
    assert.isTrue(accepts([]))
    assert.isFalse(accepts(["a", "a"]))
    assert.isTrue(accepts(Array.from({ length: 20 }, (_, n) => `b${n}`)))
    assert.isFalse(accepts(Array.from({ length: 21 }, (_, n) => `b${n}`)))
  })
})

it.each<readonly [rule: string, listed: string, overlaps: boolean]>([
  ["feature/*", "feature/x", true],
  ["feature/*", "release/*", false],
  ["feature/*", "feature/*", true],
  ["release/1/*", "release/*", true],
  ["release/1", "release/*", true],
  ["release/", "release/*", false],
  ["rel*", "release/*", true],
  ["*", "release/*", true],
  ["re*x", "release/*", true],
  ["main", "release/*", false]
])("a grant with %s may push to some branch of %s: %s", (pattern, listed, expected) => {
  assert.strictEqual(mayPushAny([rule("other"), rule(pattern)], listed), expected)
})

const repo = RepoName.make("acme/shop")
const good = { repo, branch: "feature/x", defaultBranch: "main", state: { headSha: "1", isProtected: false }, rules: [rule("feature/*")] }

it.each<readonly [facts: Partial<Parameters<typeof branchProblem>[0]>, problem: RegExp | null]>([
  [{}, null],
  [{ branch: "main", rules: [rule("*")] }, /default branch/u],
  [{ rules: [] }, /may not push/u],
  [{ branch: "other/x" }, /may not push/u],
  [{ state: null }, /no branch feature\/x/u],
  [{ state: { headSha: "1", isProtected: true } }, /protected branch/u],
  [{ branch: "feature/\u202ex" }, /feature\/⟨RIGHT-TO-LEFT OVERRIDE⟩x|feature\/⟨[^⟩]+⟩x/u]
])("a branch can be continued unless it has a problem: %j", (facts, problem) => {
  const found = branchProblem({ ...good, state: facts.branch?.includes("\u202e") === true ? null : good.state, ...facts })
  if (problem === null) assert.isNull(found)
  else assert.match(found ?? "", problem)
})

const pull = (more: Partial<PullRequest>) => ({ state: "open", merged: false, ...more }) as PullRequest

it.each<readonly [found: Parameters<typeof pullRequestProblem>[2], problem: RegExp | null]>([
  [{ pullRequest: pull({}), headRepo: RepoName.make("Acme/Shop") }, null],
  [null, /no pull request #12/u],
  [{ pullRequest: pull({ state: "closed" }), headRepo: repo }, /is closed/u],
  [{ pullRequest: pull({ state: "closed", merged: true }), headRepo: repo }, /is merged/u],
  [{ pullRequest: pull({}), headRepo: RepoName.make("else/shop") }, /fork/u],
  [{ pullRequest: pull({}), headRepo: null }, /fork/u]
])("a pull request can be continued if it is open and of the repository itself: %j", (found, problem) => {
  const reason = pullRequestProblem(repo, 12, found)
  if (problem === null) assert.isNull(reason)
  else assert.match(reason ?? "", problem)
  assert.isTrue(mayPush([rule("a"), rule("b")], "b"))
})
