/** Repositories in memory, and their source host, for its contract suites. */
import { MemoryRepositories } from "@slipway/domain/memory/files/MemoryRepositories"
import * as SourceHostMemory from "@slipway/domain/memory/source/SourceHostMemory"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import type { Fixture } from "@slipway/testing/contracts/source/SourceHostContract"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

let repositories = 0

export const fixture: Fixture<MemoryRepositories> = {
  repository: (files) =>
    Effect.map(MemoryRepositories, ({ add }) => {
      const fullName = RepoName.make(`Acme/Shop-${++repositories}`)
      const repository = add(fullName, {}, "trunk")
      repository.commit("trunk", files)
      return {
        fullName,
        commit: (branch, changes, message = "change") => {
          const author = { name: "Ada", email: "ada@example.com" }
          return Effect.sync(() => repository.commit(branch, changes, { message, author, seconds: 1_700_000_000 }))
        },
        merge: (head, base) => Effect.sync(() => void repository.merge(head, base)),
        deleteBranch: (branch) => Effect.sync(() => void repository.branches.delete(branch)),
        protect: (branch) => Effect.sync(() => void repository.protectedBranches.add(branch))
      }
    })
}

export const layer = SourceHostMemory.layer.pipe(Layer.provideMerge(MemoryRepositories.layer))
