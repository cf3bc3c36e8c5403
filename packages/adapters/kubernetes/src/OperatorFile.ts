/** Reads the operator's files: a kubeconfig, certificates, a pod template. */
import { readFile } from "node:fs/promises"

const MAX_FILE_BYTES = 4 * 2 ** 20

export const textOf = async (file: string): Promise<string> => {
  const bytes = await readFile(file)
  if (bytes.length > MAX_FILE_BYTES) throw new Error("it is too large")
  return bytes.toString("utf8")
}

export const yamlOf = async (file: string): Promise<unknown> => {
  const { parse } = await import("yaml")
  return parse(await textOf(file), { maxAliasCount: 0 })
}
