/** Lists all objects of a kind with given labels, page after page. */
import { Effect, Option, Schema } from "effect"
import { type KubernetesApi, KubernetesFailed } from "./KubernetesApi.ts"
import { type Kind, listPath, Page } from "./ObjectSchemas.ts"

const PAGE = 100
/** A longer list is an error. */
const MOST = 20_000
/** The server may forget the start of a list of many pages before its end. */
const TRIES = 3

const decodePage = Schema.decodeUnknownOption(Page)

export interface Listed<A> {
  readonly items: ReadonlyArray<A>
  /** The version from which a watch continues. */
  readonly resourceVersion: string
}

export const isExpired = ({ reason, status }: KubernetesFailed): boolean => status === 410 || reason === "Expired" || reason === "Gone"

/** Unreadable objects are left out and logged. */
export const all = Effect.fnUntraced(function*<A>(
  api: KubernetesApi,
  kind: Kind,
  namespace: string,
  labelSelector: string,
  schema: Schema.Codec<A, unknown>
): Effect.fn.Return<Listed<A>, KubernetesFailed> {
  const decode = Schema.decodeUnknownOption(schema)
  const once = Effect.gen(function*() {
    const items: Array<A> = []
    let token: string | undefined
    let damaged = 0
    for (;;) {
      const answer = yield* api.call({
        method: "GET",
        path: listPath(kind, namespace),
        query: { labelSelector, limit: PAGE, continue: token }
      })
      const page = decodePage(answer)
      if (Option.isNone(page)) {
        return yield* new KubernetesFailed({ status: null, reason: "", detail: `What answers at ${api.host} is no list.`, retryable: true })
      }
      for (const item of page.value.items) {
        const decoded = decode(item)
        if (Option.isSome(decoded)) items.push(decoded.value)
        else damaged++
      }
      const { continue: next = "", resourceVersion = "" } = page.value.metadata
      if (next === "") {
        if (damaged > 0) yield* Effect.logWarning(`${damaged} ${kind.plural} of Kubernetes could not be read`)
        return { items, resourceVersion }
      }
      if (items.length > MOST) {
        return yield* new KubernetesFailed({
          status: null,
          reason: "",
          detail: `There are more than ${MOST} ${kind.plural} of this installation.`,
          retryable: false
        })
      }
      token = next
    }
  })
  return yield* Effect.retry(once, { times: TRIES - 1, while: isExpired })
})
