import { assert, describe, it } from "@effect/vitest"
import { handleOf, isNamedBy } from "@slipway/domain/access/rules/User"
import { Role } from "@slipway/domain/access/schema/User"
import * as Schema from "effect/Schema"

const ID = "user_01ARZ3NDEKTSV4RRFFQ69G5FAV"

describe("a handle", () => {
  it.each([ID, "user_00000000000000000000000000"])("that is an id: %s", (id) => assert.deepStrictEqual(handleOf(id), { _tag: "Id", id }))

  it.each(["ada@example.com", "a@b", "Ada.L+x_y'z@sub.example.com", "!@~", "~@!", "?@A", `${"a".repeat(252)}@b`])(
    "that is an e-mail address: %s",
    (email) => assert.deepStrictEqual(handleOf(email), { _tag: "Email", email })
  )

  it.each(["a", "Z", "0", "9z", "ada-l", "a-b-c", "user", "a".repeat(39), `a${"-b".repeat(19)}`])(
    "that is a GitHub login: %s",
    (login) => assert.deepStrictEqual(handleOf(login), { _tag: "GithubLogin", login })
  )

  it.each([
    "",
    " ",
    "ada ",
    "@",
    "a@",
    "@a",
    "a@@b",
    "a@b@c",
    "a b@c",
    "é@b",
    "a@é",
    "a@b\n",
    "\u007f@b",
    `${"a".repeat(253)}@b`,
    "-a",
    "a-",
    "a--b",
    "a_b",
    "a.b",
    "a".repeat(40),
    "user_01ARZ3NDEKTSV4RRFFQ69G5FAU",
    "user_01ARZ3NDEKTSV4RRFFQ69G5FA",
    `${ID}0`,
    `x${ID}`,
    ID.toLowerCase(),
    "user_"
  ])("that is invalid: %j", (text) => assert.isNull(handleOf(text)))
})

describe("a role", () => {
  it("is owner or member", () => assert.deepStrictEqual(["owner", "member", "", "admin"].filter(Schema.is(Role)), ["owner", "member"]))
})

describe("a user", () => {
  const user = { id: ID, email: "Ada@Example.com", githubLogin: "Ada" }
  const nobody = { id: ID, email: null, githubLogin: null }

  it("is named by the id as it is, by address and login in any case", () => {
    assert.isTrue(isNamedBy(user, { _tag: "Id", id: ID }))
    assert.isFalse(isNamedBy(user, { _tag: "Id", id: ID.toLowerCase() }))
    for (const email of ["ada@example.com", "ADA@EXAMPLE.COM", user.email]) assert.isTrue(isNamedBy(user, { _tag: "Email", email }))
    for (const login of ["ada", "ADA", "Ada"]) assert.isTrue(isNamedBy(user, { _tag: "GithubLogin", login }))
  })

  it("is not named by another's, nor by one for the other", () => {
    assert.isFalse(isNamedBy(user, { _tag: "Email", email: "ada@example.org" }))
    assert.isFalse(isNamedBy(user, { _tag: "Email", email: "Ada" }))
    assert.isFalse(isNamedBy(user, { _tag: "GithubLogin", login: "Ada@Example.com" }))
    assert.isFalse(isNamedBy(nobody, { _tag: "Email", email: "null" }))
    assert.isFalse(isNamedBy(nobody, { _tag: "GithubLogin", login: "null" }))
  })
})
