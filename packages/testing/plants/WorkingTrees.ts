import { type Plants, plantsIn } from "./Plant.ts"

const content = "MemoryTree.committed(tree.base, MemoryTree.read(disk, tree.root), \"saved\")"
const renamed = "sources.find((old) => nameOf(old) === nameOf(path)) ?? sources[0]"
const isGone = "chunk.length === 0 ? Effect.fail(new FileNotFound())"
const tooLong = "return bytes.length > maximumBytes ? yield* new FileTooLarge({ maximumBytes }) : bytes"

export const plants: Plants = {
  port: "WorkingTrees",
  subject: "packages/testing/test/files/WorkingTrees.suites.ts",
  plants: [
    ...plantsIn("packages/domain/memory/files/WorkingTreesMemory.ts", [
      ["makes the tree anew that is there", "if (existing !== undefined) return", "if (false) return"],
      ["takes a tag for a branch of the same name", "if (tip !== undefined) return",
        "if (tip !== undefined && tagged === undefined) return"],
      ["says that a tag is a branch", "{ sha: tagged, branch: null }", "{ sha: tagged, branch: name }"],
      ["knows commits in small letters alone", "ref.toLowerCase()", "ref"],
      ["says that another try may find the branch", "detail: found, retryable: false", "detail: found, retryable: true"]
    ]),
    ...plantsIn("packages/domain/memory/files/PreparedTrees.ts", [
      ["has one folder for repositories of one name", "return isShared ?", "return false ?"]
    ]),
    ...plantsIn("packages/domain/memory/files/TreeReads.ts", [
      ["lists what is protected", "if (isProtected(directory)) return yield* new FileProtected()", ""],
      ["opens what is protected",
        "if (isProtected(path)) return yield* new FileProtected()\n      const tree = yield* find(trees, key)\n      let",
        "const tree = yield* find(trees, key)\n      let"],
      ["opens no file of just the size that is allowed", "if (bytes.length > maximumBytes) return",
        "if (bytes.length >= maximumBytes) return"],
      ["streams a file in one piece", "Math.min(size, position + CHUNK_BYTES)", "size"],
      ["streams what a file has grown by", "if (position === size) return", "if (position === bytes.length) return"],
      ["ends where a file was cut", isGone, isGone.replace("Effect.fail(new FileNotFound())", "Effect.undefined")],
      ["loses what was deleted while it was read", "?? content\n", "?? \"\"\n"],
      ["shows the base for what was published", "head: published === null ?", "head: true ?"],
      ["compares with a base that is too large", "Object.values(versions).some(", "[versions.working].some("],
      ["shows the content of binary files", "content: binary ? null : content", "content"],
      ["reads of the base what the agent made of it", "const { base } = yield* find(trees, key)\n      return new Map(",
        "const base = MemoryTree.read(disk, (yield* find(trees, key)).root)\n      return new Map("],
      ["reads of the base less than was asked for", "content: bytes.length > maximumBytes ? null",
        "content: bytes.length >= maximumBytes ? null"],
      ["searches protected files", "if (isProtected(path)) continue", ""],
      ["finds any number of files", "if (files.length === MAX_FOUND_FILES)", "if (false)"],
      ["hides that there are more files", "isComplete = false\n          break", "break"],
      ["searches files of any size", "bytes.length > MAX_SEARCHED_FILE ? null : bytes", "bytes"],
      ["finds files by their whole path", "wanted.has(path.slice(path.lastIndexOf(\"/\") + 1))", "wanted.has(path)"],
      ["finds one file less", "found.length > maximum ?", "found.length >= maximum ?"],
      ["knows tips alone", "repository.history(tip).includes(baseSha)", "tip === baseSha"],
      ["knows no tags", "branches.get(ref) ?? tags.get(ref) ?? []", "branches.get(ref) ?? []"],
      ["takes a pattern for a name", "if (!ref.endsWith(\"/*\")) return", "if (true) return"],
      ["takes a name for the beginning of one", "if (!ref.endsWith(\"/*\")) return", "if (tags.has(ref) || branches.has(ref)) return"],
      ["tells of a tree that is not there", "const { baseSha } = yield* find(trees, key)",
        "const { baseSha } = trees.sandboxes.get(key.sandboxId)?.get(key.repo.toLowerCase()) ?? { baseSha: \"\" }"],
      ["does not know the base by its id", "version === \"base\" || version === tree.baseSha", "version === \"base\""],
      ["names one of the commits that it does not know", "commits: [...new Set([from, to])]", "commits: [from]"],
      ["tells no patch of just the size that is allowed", tooLong, tooLong.replace(">", ">=")],
      ["tells a patch of any size", tooLong, "return bytes"]
    ]),
    ...plantsIn("packages/domain/memory/files/TreePublishing.ts", [
      ["commits for every caller", "author,\n          seconds", "author: { ...author, email: \"\" },\n          seconds"],
      ["does not say where a commit goes", "return { sha, baseRef: tree.baseRef }", "return { sha, baseRef: null }"],
      ["pushes to a branch that is elsewhere", "if (current !== (expected ?? undefined)) return", "if (false) return"],
      ["replaces what it is told to expect", "!commit.parents.includes(expected)", "false"],
      ["takes everybody's commits for its own", "tried.has(head) || isSnapshot(head)", "true"],
      ["knows only what is recorded", "tried.has(head) || isSnapshot(head)", "false"],
      ["goes on from where its branch was set back to", "repository.history(head).includes(pushed)", "true"],
      ["does not see that its branch is gone", "const isGone = pushed !== null ||", "const isGone = false &&"],
      ["commits what is published already", "return head === null ? yield* new NoChanges({ repo: key.repo }) : { sha: head,",
        "if (head === null) return yield* new NoChanges({ repo: key.repo })\n          if (false) return { sha: head,"],
      ["commits on the base again", "const parent = head ??", "const parent ="],
      ["merges with what was published last", "MemoryMerge.merge(content, yield* at(onto), yield* at(ancestor))",
        "MemoryMerge.merge(content, yield* at(onto), yield* at(null))"],
      ["refuses what is there already", "if (current !== sha) {", "if (true) {"],
      ["pushes to a branch without a name", "if (!isRefName(headRef)) return", "if (false) return"]
    ]),
    ...plantsIn("packages/domain/memory/files/TreeSaving.ts", [
      ["saves no files of the environment", `${content}\n            const files`,
        `${content.replace(", \"saved\"", "")}\n            const files`],
      ["tells what went for what came", "counts(tree.base, content ?? tree.base)", "counts(content ?? tree.base, tree.base)"],
      ["forgets what may be executed", "tree: { files, executables: [...executables] }", "tree: { files, executables: [] }"],
      ["forgets what it pushed", "pushed: Array.from(tree.pushed,", "pushed: Array.from(new Map(),"],
      ["forgets what was published last", "published: published === null ? null : {\n                sha",
        "published: true ? null : {\n                sha"],
      ["says that a large tree may be saved later", "detail: \"It is larger than it may be.\", retryable: false",
        "detail: \"It is larger than it may be.\", retryable: true"],
      ["goes on where another sandbox published", "const kept = forget === \"publication\" ?", "const kept = false ?"],
      ["restores some of the trees", "if (saved.length !== sources.length) return yield* others", ""],
      ["restores repositories in their case alone", "sameRepo(candidate.repo, repo)", "candidate.repo === repo"]
    ]),
    ...plantsIn("packages/domain/memory/files/PreparedTrees.ts", [
      ["leaves what came after it was saved", "clear(disk, root)\n", "\n"]
    ]),
    ...plantsIn("packages/domain/memory/files/WorkingTreesMemory.ts", [
      ["has the trees while they are restored", " && !restoring.has(sandboxId) &&", " &&"]
    ]),
    ...plantsIn("packages/domain/memory/files/TreeSaving.ts", [
      ["counts the characters of files", "sum + utf8.encode(text).length, 0)", "sum + text.length, 0)"],
      ["does not know what it restored", "saved: new Map([[sha, contentOf(tree)]])", "saved: new Map()"],
      ["learns what goes on from another commit", "learned.some(({ baseSha, known }) => baseSha !== known.baseSha)", "false"]
    ]),
    ...plantsIn("packages/domain/memory/files/WorkingTreesMemory.ts", [
      ["lists the sandboxes that it had", "sandboxes.delete(sandboxId)\n", "sandboxes.set(sandboxId, new Map())\n"]
    ]),
    ...plantsIn("packages/domain/memory/files/TreePublishing.ts", [
      ["takes branches that are gone for old ones", "return { tips, shallow: [], pack: Stream.empty }",
        "return { tips: new Map(branches.map((branch) => [branch, tips.get(branch) ?? \"\"])), shallow: [], pack: Stream.empty }"]
    ]),
    ...plantsIn("packages/domain/memory/files/MemoryMerge.ts", [
      ["sees no conflict", "own !== before && other !== before && own !== other", "false"],
      ["takes back what the base has", "own === before ? theirs : ours", "ours"]
    ]),
    ...plantsIn("packages/domain/memory/files/MemoryTree.ts", [
      ["commits what is ignored", " && !isIgnored(path, false)", ""],
      ["commits what is in repositories within the tree", "!ancestors(path).some((above) => nested.includes(above)) && ", ""],
      ["publishes files of the environment", "kind === \"saved\" || !isEnvironmentFile(path)", "true"],
      ["takes any deleted file for the renamed one", renamed, "sources[0]"],
      ["takes new files for published ones", "published.has(path) ? \"added\" : \"untracked\"", "\"added\""],
      ["tells how many lines of protected files differ", "isProtected(change.path) ? { ...change, additions: 0, deletions: 0 } : change",
        "change"],
      ["does not say that there are more changes", "files.length > MAX_CHANGES ? [\"entries_truncated\"] : []", "[]"],
      ["tells the size of protected files", "size: isShown ? sizeOf(content) : null", "size: sizeOf(content)"],
      ["lists what git has in capitals", "name.toLowerCase() === \".git\"", "name === \".git\""]
    ]),
    ...plantsIn("packages/domain/memory/files/MemoryPatch.ts", [
      ["tells what begins with the path", "name.startsWith(`${path}/`)", "name.startsWith(path)"],
      ["tells protected files among the others", "[...paths.filter((name) => !isProtected(name)), ...paths.filter(isProtected)]", "paths"],
      ["shows what is in protected files", "if (isProtected(path)) {", "if (false) {"],
      ["shows less of the lines around", "const CONTEXT = 3", "const CONTEXT = 2"]
    ]),
    ...plantsIn("packages/domain/memory/files/MemoryCheckpoint.ts", [
      ["restores what was changed on the way", "new TextDecoder().decode(digest) === sha256(json)", "true"]
    ])
  ]
}
