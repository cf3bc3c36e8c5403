import { assert, describe, it } from "@effect/vitest"
import { MemoryRepositories, MemoryRepository } from "@slipway/domain/memory/files/MemoryRepositories"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as Effect from "effect/Effect"

const repo = RepoName.make("Acme/Shop")

/** Files of a branch, executables with a leading `*`. */
const files = (repository: MemoryRepository, branch: string) => {
  const sha = repository.branches.get(branch)
  return Object.fromEntries(
    Object.entries(repository.filesOf(sha)).map((
      [path, content]
    ) => [path, repository.executablesOf(sha).has(path) ? `*${content}` : content])
  )
}

/** With a branch whose tip makes the named files executable. */
const withExecutables = (...executables: ReadonlyArray<string>) => {
  const repository = new MemoryRepository(repo, "main", { tool: "1", v: "1" })
  const base = repository.branches.get("main") ?? ""
  repository.branches.set(
    "feature",
    repository.add({ parents: [base], files: repository.filesOf(base), executables: new Set(executables) })
  )
  return repository
}

describe("MemoryRepository", () => {
  it("what may be executed stays so until it is deleted", () => {
    const repository = withExecutables("tool")
    repository.commit("feature", { v: "2" })
    assert.deepStrictEqual(files(repository, "feature"), { tool: "*1", v: "2" })
    repository.commit("feature", { tool: null })
    repository.commit("feature", { tool: "1" })
    assert.deepStrictEqual(files(repository, "feature"), { tool: "1", v: "2" })
  })

  it("merges what became executable, and what no longer is", () => {
    const repository = withExecutables("tool")
    repository.commit("main", { v: "2" })
    repository.merge("feature", "main")
    assert.deepStrictEqual(files(repository, "main"), { tool: "*1", v: "2" })
    const tip = repository.branches.get("main") ?? ""
    repository.branches.set("plain", repository.add({ parents: [tip], files: repository.filesOf(tip) }))
    repository.commit("main", { v: "3" })
    repository.merge("plain", "main")
    assert.deepStrictEqual(files(repository, "main"), { tool: "1", v: "3" })
  })

  it("what may be executed, and the note, make another commit", () => {
    const repository = new MemoryRepository(repo, "main", {})
    const commit = { parents: [], files: { v: "1" } }
    const shas = [commit, { ...commit, executables: new Set(["v"]) }, { ...commit, note: "x" }].map((each) => repository.add(each))
    assert.strictEqual(new Set(shas).size, 3)
    assert.strictEqual(repository.add({ ...commit, executables: new Set(["gone"]) }), shas[0])
  })
})

it.effect("finds a repository by name or address, in any case of letters, and by nothing else", () =>
  Effect.gen(function*() {
    const { add, at, find } = yield* MemoryRepositories
    const repository = add(repo, {})
    assert.strictEqual(find(RepoName.make("acme/shop")), repository)
    assert.strictEqual(at("file:///memory/acme/SHOP"), repository)
    for (const url of ["file:///memoir/acme/shop", "acme/shop", "file:///memory/acme/shops"]) assert.isUndefined(at(url), url)
  }).pipe(Effect.provide(MemoryRepositories.layer)))
