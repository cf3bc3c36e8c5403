/** Which addresses there are, each with its methods, its scope and its part of the service. The API's are read from its definition. */
import { Api } from "@slipway/api/Api"
import { InternalApi } from "@slipway/api/InternalApi"
import { Area, type AreaName, NeededScope, WithoutHead } from "@slipway/api/shared/Routing"
import type { Scope } from "@slipway/domain/access/schema/Principal"
import { Context, Layer, Option } from "effect"
import { HttpApi, type HttpApiGroup } from "effect/http-api"

export interface Address {
  /** Its path as it was declared, with the names of its parameters. */
  readonly pattern: string
  /** In the order of their declaration, `OPTIONS` at the end. */
  readonly methods: ReadonlyArray<string>
  readonly area: AreaName
  /** `null`: it is open to everybody. */
  readonly scope: Needed | null
  /** Parameters that the challenge of a 401 has here, such as `resource_metadata="…"`; `null`: no more than elsewhere. */
  readonly challenge: string | null
}

/** `any`: a valid key is needed, whatever its scopes. */
export type Needed = Scope | "any"

/** The scope of an unknown address of the API that is near no known one. */
const ANYWHERE: Scope = "sandboxes"

/** One segment of the addresses' paths. */
interface Place {
  readonly named: Map<string, Place>
  /** Beneath a parameter. */
  other: Place | null
  address: Address | null
  /** The scope of the group whose addresses all begin here. */
  scope: Scope | null
}
const place = (): Place => ({ named: new Map(), other: null, address: null, scope: null })

const segmentsOf = (path: string): ReadonlyArray<string> => path.slice(1).split("/")
const isParameter = (segment: string) => segment.startsWith(":")

const stepInto = (at: Place, segment: string): Place => {
  const next = (isParameter(segment) ? at.other : at.named.get(segment)) ?? place()
  if (isParameter(segment)) at.other = next
  else at.named.set(segment, next)
  return next
}

/** The common beginning of all paths, up to the first parameter. */
const commonStart = (paths: ReadonlyArray<ReadonlyArray<string>>): ReadonlyArray<string> => {
  const [first = [], ...others] = paths
  const end = first.findIndex((segment, i) => isParameter(segment) || others.some((other) => other[i] !== segment))
  return end < 0 ? first : first.slice(0, end)
}

const allIn = ({ address, named, other }: Place): ReadonlyArray<Address> => [
  ...(address === null ? [] : [address]),
  ...[...named.values(), ...(other === null ? [] : [other])].flatMap(allIn)
]

/** Finds the rest of `path` from `from` on: the index of a slash, or the end of the path. */
const find = (at: Place, path: string, from: number): Address | null => {
  if (from === path.length) return at.address
  const slash = path.indexOf("/", from + 1)
  const end = slash < 0 ? path.length : slash
  const segment = path.slice(from + 1, end)
  const named = at.named.get(segment)
  const found = named === undefined ? null : find(named, path, end)
  return found ?? (at.other === null || segment === "" ? null : find(at.other, path, end))
}

export class Routes extends Context.Service<Routes, {
  /** Adds what is not in the API's definition, and is open to everybody. */
  declare(path: string, methods: ReadonlyArray<string>, area: AreaName): void
  /** Adds what is not in the API's definition, and needs a valid key of any scope. */
  declareForKeys(path: string, methods: ReadonlyArray<string>, area: AreaName, challenge: string): void
  /** Adds what is not in the API's definition, and needs a key with this scope, or a session. */
  declareForScope(path: string, methods: ReadonlyArray<string>, area: AreaName, scope: Scope): void
  /** Every address. */
  all(): ReadonlyArray<Address>
  /** `null`: there is no such address. `path` is decoded. */
  at(path: string): Address | null
  /** As of the address; where there is none beneath `/api/`, as of those near it: who calls is told before what is there. */
  scopeAt(path: string): Needed | null
}>()("@slipway/http/Routes") {
  static readonly layer = Layer.sync(Routes, () => make())
}

const make = (): Routes["Service"] => {
  const root = place()

  const add = (
    path: string,
    methods: ReadonlyArray<string>,
    area: AreaName,
    scope: Needed | null,
    challenge: string | null = null
  ) => {
    const at = segmentsOf(path).reduce(stepInto, root)
    const known = at.address?.methods.filter((method) => method !== "OPTIONS") ?? []
    at.address = { pattern: path, methods: [...new Set([...known, ...methods, "OPTIONS"])], area, scope, challenge }
  }

  const ofGroups = new Map<HttpApiGroup.Top, Array<ReadonlyArray<string>>>()
  const declaring = {
    onGroup: () => {},
    onEndpoint: ({ endpoint: { method, path }, group, mergedAnnotations }: {
      readonly endpoint: { readonly method: string; readonly path: string }
      readonly group: HttpApiGroup.Top
      readonly mergedAnnotations: Context.Context<never>
    }) => {
      const withHead = method === "GET" && !Context.get(mergedAnnotations, WithoutHead)
      const scope = Option.getOrNull(Context.getOption(mergedAnnotations, NeededScope))
      const area = Option.getOrElse(Context.getOption(mergedAnnotations, Area), (): AreaName => "other")
      add(path, withHead ? ["GET", "HEAD"] : [method], area, scope)
      const paths = ofGroups.get(group) ?? []
      ofGroups.set(group, paths)
      paths.push(segmentsOf(path))
    }
  }
  HttpApi.reflect(Api, declaring)
  HttpApi.reflect(InternalApi, declaring)
  for (const [group, paths] of ofGroups) {
    commonStart(paths).reduce(stepInto, root).scope = Option.getOrNull(Context.getOption(group.annotations, NeededScope))
  }

  const at = (path: string) => path.startsWith("/") ? find(root, path, 0) : null

  const nearest = (path: string): Scope => {
    let scope: Scope | null = null
    let here: Place | undefined = root
    for (const segment of segmentsOf(path)) {
      here = here.named.get(segment)
      if (here === undefined) break
      scope = here.scope ?? scope
    }
    return scope ?? ANYWHERE
  }

  return {
    declare: (path, methods, area) => add(path, methods, area, null),
    declareForKeys: (path, methods, area, challenge) => add(path, methods, area, "any", challenge),
    declareForScope: (path, methods, area, scope) => add(path, methods, area, scope),
    all: () => allIn(root),
    at,
    scopeAt: (path) => {
      const address = at(path)
      return address !== null ? address.scope : path.startsWith("/api/") ? nearest(path) : null
    }
  }
}
