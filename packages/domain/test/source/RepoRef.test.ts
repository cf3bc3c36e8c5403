import { assert, describe, it } from "@effect/vitest"
import { headRef, isCommitId, isRefName, roundOf, sameRepo } from "@slipway/domain/source/schema/Naming"
import { Ref, RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as Schema from "effect/Schema"

const sha = "0123456789abcdef0123456789abcdef01234567"

describe("RepoName", () => {
  const accepts = Schema.is(RepoName)
  it.each(["acme/app", "a/b", "A-1/b_c.d", "acme/.github", "acme/...", "a.b/c", `a/${"b".repeat(199)}`])(
    "takes %s",
    (name) => assert.isTrue(accepts(name))
  )
  it.each([
    "",
    "acme",
    "/",
    "acme/",
    "/app",
    "a/b/c",
    "./app",
    "../app",
    "acme/.",
    "acme/..",
    "-a/b",
    "a/-b",
    ".a/b",
    "a/b.git",
    "a/B.GIT",
    "a/.git",
    "a b/c",
    "a/b\n",
    "a/é",
    "a/b\0",
    "a\\b/c",
    `a/${"b".repeat(200)}`
  ])("refuses %j", (name) => assert.isFalse(accepts(name)))

  it("two spellings that differ in case name one repository", () => {
    assert.isTrue(sameRepo("Acme/App", "acme/aPP"))
    assert.isFalse(sameRepo("acme/app", "acme/app2"))
  })
})

describe("Ref", () => {
  const accepts = Schema.is(Ref)
  it.each(["main", "feature/a-b", "v1.0", "a@b", "é", "a/-b", "HEAD", sha, sha.toUpperCase(), sha + sha.slice(0, 24), "x".repeat(255)])(
    "takes %s",
    (ref) => assert.isTrue(accepts(ref))
  )
  it.each([
    "",
    "-x",
    "--upload-pack=x",
    "a..b",
    "a b",
    "a~1",
    "a^",
    "a:b",
    "a?",
    "a*",
    "a[",
    "a\\b",
    "a.lock",
    "a.lock/b",
    ".a",
    "a/.b",
    "a/",
    "/a",
    "a//b",
    "a.",
    "@",
    "a@{1}",
    "a\u0001",
    "a\u007f",
    "a\0",
    "\ud800",
    "x".repeat(256)
  ])("refuses %j", (ref) => assert.isFalse(accepts(ref)))

  it("a full commit id is a name, and nothing shorter is one", () => {
    assert.isTrue(isRefName(sha))
    const sha256 = sha + sha.slice(0, 24)
    for (const id of [sha, sha.toUpperCase(), sha256]) assert.isTrue(isCommitId(id), id)
    for (const text of ["main", sha.slice(1), `${sha}0`, `x${sha}`, `${sha}x`, sha256.slice(1), `${sha256}0`]) {
      assert.isFalse(isCommitId(text), text)
    }
  })
})

describe("the branch of a sandbox", () => {
  it.each([[1, "slipway/c_b"], [2, "slipway/c_b-2"], [123_456, "slipway/c_b-123456"]])(
    "for its pull request number %i is %s",
    (round, branch) => {
      assert.strictEqual(headRef("c_b", round), branch)
      assert.strictEqual(roundOf(branch), round)
    }
  )

  it("is the one of its first pull request unless another is asked for", () => assert.strictEqual(headRef("c_b"), "slipway/c_b"))
})
