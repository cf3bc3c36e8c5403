/** The test server is held to the published descriptions of the APIs. These tests hold that itself. */
import { assert, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import * as Description from "../testing/Description.ts"

const { operationOf, problems, source } = Description.load("forgejo")
const gitea = Description.load("gitea")

const call = (method: string, path: string, more: Partial<Description.Exchange> = {}): Description.Exchange => ({
  method,
  path: `/repos/acme/app${path}`,
  query: new URLSearchParams(),
  body: undefined,
  status: 200,
  answer: undefined,
  ...more
})
const query = (text: string) => ({ query: new URLSearchParams(text), answer: [] })
const isFine = (exchange: Description.Exchange) => problems(exchange).length === 0

it("knows the operations of the description by their paths", () => {
  assert.strictEqual(operationOf("GET", "/user"), "get /user")
  assert.strictEqual(operationOf("GET", "/repos/a/b/branches/slipway/x"), "get /repos/{owner}/{repo}/branches/{branch}")
  assert.strictEqual(operationOf("GET", "/repos/a/b/issues/comments"), "get /repos/{owner}/{repo}/issues/comments")
  for (const [method, path] of [["GET", "/users"], ["DELETE", "/user"], ["GET", "/repos/a/b/actions/jobs/1/logs"]] as const) {
    assert.isUndefined(operationOf(method, path))
  }
  assert.isDefined(gitea.operationOf("GET", "/repos/a/b/actions/jobs/1/logs"))
  assert.match(source, /^Forgejo, .* at commit [\da-f]{40}/u)
})

it("takes no unknown operation, parameter, type or word", () => {
  assert.isTrue(isFine(call("GET", "/pulls", query("state=open&limit=5&page=1&sort=oldest"))))
  for (const wrong of ["per_page=5", "limit=many", "state=merged", "limit="]) {
    assert.isFalse(isFine(call("GET", "/pulls", query(wrong))), wrong)
  }
  assert.isFalse(isFine(call("GET", "/pulls/seven", { answer: {} })))
  assert.isFalse(isFine(call("GET", "/check-runs", { answer: {} })))
  assert.isFalse(isFine(call("GET", "/pulls", { ...query(""), body: {} })))
})

it("takes no body with other fields, other types or without what is required", () => {
  const opened = (body: object) => call("POST", "/pulls", { status: 201, answer: {}, body })
  assert.isTrue(isFine(opened({ title: "t", head: "x", base: "y" })))
  for (const wrong of [{ draft: true }, { title: 5 }, { labels: ["x"] }]) assert.isFalse(isFine(opened(wrong)), JSON.stringify(wrong))
  const commented = (body: object | undefined) => call("POST", "/issues/1/comments", { status: 201, answer: {}, body })
  assert.isTrue(isFine(commented({ body: "x" })))
  assert.isFalse(isFine(commented({})))
  assert.isFalse(isFine(commented({ body: null })))
})

it("takes no answer with other fields, types or status", () => {
  const read = (answer: unknown, status = 200) => call("GET", "/pulls/1", { answer, status })
  assert.isTrue(isFine(read({ id: 1, title: "t", closed_at: null })))
  assert.isTrue(isFine(read({ message: "no" }, 404)))
  for (const wrong of [{ node_id: "x" }, { id: "1" }, [], { user: { login: 5 } }]) {
    assert.isFalse(isFine(read(wrong)), JSON.stringify(wrong))
  }
  assert.isFalse(isFine(read({}, 201)))
})

it("the file names its sources and their licences", () => {
  const file = JSON.parse(readFileSync(new URL("../testing/api.json", import.meta.url), "utf8")) as Record<
    string,
    { licence: string; source: string }
  >
  for (const flavour of ["forgejo", "gitea"]) {
    assert.match(file[flavour]?.licence ?? "", /^MIT/u)
    assert.match(file[flavour]?.source ?? "", /swagger/u)
  }
})
