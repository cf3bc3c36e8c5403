import { Effect, Layer } from "effect"
import { MemoryDisk } from "@slipway/domain/files/MemoryDisk"
import { WorkingTrees } from "@slipway/domain/files/WorkingTrees"
import { MemoryRepositories } from "@slipway/domain/source/MemoryRepositories"
import { RepoName } from "@slipway/domain/source/RepoRef"
import { SourceHost } from "@slipway/domain/source/SourceHost"
import { trees } from "@slipway/domain/testing/WorkingTreesContract"

const Memory = Layer.mergeAll(WorkingTrees.layerMemory, SourceHost.layerMemory).pipe(
  Layer.provideMerge(Layer.merge(MemoryDisk.layer, MemoryRepositories.layer))
)

const text = (content: string | Uint8Array) =>
  typeof content === "string" ? content : new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content)
const texts = (files: Readonly<Record<string, string | Uint8Array | null>>) =>
  Object.fromEntries(Object.entries(files).map(([path, content]) => [path, content === null ? null : text(content)]))

let repositories = 0

trees("memory", Memory, {
  source: Effect.fnUntraced(function*(files) {
    const { add } = yield* MemoryRepositories
    const fullName = RepoName.make(`acme/source-${++repositories}`)
    const repository = add(fullName, {})
    if (files === undefined) repository.branches.clear()
    else repository.commit("main", texts(files))
    return {
      remote: yield* (yield* SourceHost).remote(fullName, "write"),
      commit: (branch, changes) => Effect.sync(() => repository.commit(branch, texts(changes))),
      tag: (name, sha) => Effect.sync(() => void repository.tags.set(name, sha)),
      deleteBranch: (branch) => Effect.sync(() => void repository.branches.delete(branch)),
      tip: (branch) => Effect.sync(() => repository.branches.get(branch) ?? null),
      files: (sha) =>
        Effect.sync(() => {
          const executables = repository.executablesOf(sha)
          return Object.fromEntries(Object.entries(repository.filesOf(sha)).map(([path, content]) => [path, executables.has(path) ? `*${content}` : content]))
        })
    }
  }),
  agent: {
    write: (path, content) => Effect.map(MemoryDisk, ({ files }) => void files.set(path, text(content))),
    append: (path, content) => Effect.map(MemoryDisk, ({ files }) => void files.set(path, (files.get(path) ?? "") + content)),
    truncate: (path) => Effect.map(MemoryDisk, ({ files }) => void files.set(path, "")),
    makeExecutable: (path) => Effect.map(MemoryDisk, ({ executables }) => void executables.add(path)),
    remove: (path) =>
      Effect.map(MemoryDisk, ({ files }) => {
        for (const file of files.keys()) if (file === path || file.startsWith(`${path}/`)) files.delete(file)
      }),
    rename: (from, to) =>
      Effect.map(MemoryDisk, ({ files }) => {
        files.set(to, files.get(from) ?? "")
        files.delete(from)
      }),
    initRepository: (path) => Effect.map(MemoryDisk, ({ files }) => void files.set(`${path}/.git/HEAD`, "ref: refs/heads/main\n"))
  }
})
