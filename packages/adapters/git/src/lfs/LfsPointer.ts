/** Pointers of Git LFS: the small files that repositories have in place of contents (git-lfs, docs/spec.md). */

/** A content. */
export interface LfsObject {
  /** SHA-256, in hex. */
  readonly oid: string
  /** Bytes. */
  readonly size: number
}

/** Bytes of a pointer: the format allows fewer than 1,024. */
export const MAX_POINTER = 1_023
/** A pointer begins with this, and has one line of each of the others. */
const VERSION = /^version https:\/\/(?:git-lfs|hawser)\.github\.com\/spec\/v1\n/u
const OID = /^oid sha256:(?<oid>[0-9a-f]{64})$/mu
const SIZE = /^size (?<size>\d{1,19})$/mu

/** The content that these bytes point to; `undefined`: they are no pointer. The size of a hostile one may be inexact. */
export const parse = (bytes: Buffer): LfsObject | undefined => {
  if (bytes.length > MAX_POINTER) return undefined
  const text = bytes.toString("latin1")
  const [oid, size] = [OID.exec(text)?.groups?.["oid"], SIZE.exec(text)?.groups?.["size"]]
  return VERSION.test(text) && oid !== undefined && size !== undefined ? { oid, size: Number(size) } : undefined
}

/** As git-lfs writes it. */
export const format = ({ oid, size }: LfsObject): string => `version https://git-lfs.github.com/spec/v1\noid sha256:${oid}\nsize ${size}\n`
