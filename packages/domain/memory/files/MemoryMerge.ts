/** Three-way merges of the memory layer: whole files, by their content. */
import type { Content } from "./MemoryTree.ts"

const fileOf = ({ executables, files }: Content, path: string): string | undefined => {
  const content = files.get(path)
  return content === undefined ? undefined : `${executables.has(path) ? "*" : ""}\0${content}`
}

/** Whether both hold the same files. */
export const isSame = (one: Content, other: Content): boolean =>
  one.files.size === other.files.size && Array.from(one.files.keys()).every((path) => fileOf(one, path) === fileOf(other, path))

/** Merges the changes of `ours` since `ancestor` with `theirs`. `conflicts`: files that both changed differently, by name. */
export const merge = (
  ours: Content,
  theirs: Content,
  ancestor: Content
): { readonly content: Content; readonly conflicts: ReadonlyArray<string> } => {
  const [files, executables] = [new Map<string, string>(), new Set<string>()]
  const conflicts: Array<string> = []
  for (const path of [...new Set([ours, theirs, ancestor].flatMap(({ files }) => [...files.keys()]))].sort()) {
    const [own, other, before] = [ours, theirs, ancestor].map((content) => fileOf(content, path))
    if (own !== before && other !== before && own !== other) conflicts.push(path)
    const from = own === before ? theirs : ours
    const content = from.files.get(path)
    if (content === undefined) continue
    files.set(path, content)
    if (from.executables.has(path)) executables.add(path)
  }
  for (const path of files.keys()) {
    const above = path.split("/").slice(0, -1).map((_, i, parts) => parts.slice(0, i + 1).join("/"))
    conflicts.push(...above.filter((folder) => files.has(folder)))
  }
  return { content: { files, executables }, conflicts: [...new Set(conflicts)].sort() }
}
