/** Names of images: the same one can be written in several ways. */

/** The registry and folder of a name without a registry, as the daemon reads it. */
const REGISTRY = "docker.io"

interface Name {
  /** With its registry and all folders. */
  readonly repository: string
  /** `latest` without a tag and a digest. */
  readonly tag: string | null
  /** `sha256:…` */
  readonly digest: string | null
}

/** The parts of `registry/folder/name:tag@digest`, of which all but the name may be left out. */
const parse = (text: string): Name => {
  const [named = "", digest = null] = text.split("@", 2)
  const colon = named.lastIndexOf(":")
  const hasTag = colon > named.lastIndexOf("/")
  const path = hasTag ? named.slice(0, colon) : named
  const [first = "", ...rest] = path.split("/")
  const hasRegistry = rest.length > 0 && (/[.:]/u.test(first) || first === "localhost")
  const within = hasRegistry ? rest : [first, ...rest]
  const registry = hasRegistry && first !== "index.docker.io" ? first : REGISTRY
  return {
    repository: [registry, ...(registry === REGISTRY && within.length === 1 ? ["library"] : []), ...within].join("/"),
    tag: hasTag ? named.slice(colon + 1) : digest === null ? "latest" : null,
    digest
  }
}

/** Whether `offered`, which may have a digest beside its tag, is the requested image. */
const isAsked = (asked: Name, offered: Name): boolean =>
  asked.repository === offered.repository && (asked.digest === null ? asked.tag === offered.tag : asked.digest === offered.digest)

/** The first of `offered` that is the image named by `asked`. */
export const find = <A extends { readonly name: string }>(asked: string, offered: ReadonlyArray<A>): A | undefined => {
  const name = parse(asked)
  return offered.find((one) => isAsked(name, parse(one.name)))
}
