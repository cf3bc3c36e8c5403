/** The identity of a service for a cluster, and the cluster that it trusts. */
import { assert, describe, it } from "@effect/vitest"
import { temporaryFolder } from "@slipway/machine/testing/hosts/Machine"
import { Effect, Redacted } from "effect"
import { mkdir } from "node:fs/promises"
import path from "node:path"
import * as Cluster from "../src/Cluster.ts"
import * as KubernetesApi from "../src/KubernetesApi.ts"
import { cluster, TOKEN, writeText } from "./Fixture.ts"

const refused = (options: Cluster.Options) => Effect.map(Effect.flip(Cluster.find(options)), ({ message }) => message)

const kubeconfig = (user: string, more = "") => `
apiVersion: v1
kind: Config
current-context: here
contexts: [{ name: here, context: { cluster: one, user: me, namespace: boxes } }, { name: nobody, context: { cluster: two, user: me } }]
clusters:
  - name: one
    cluster:
      server: https://10.1.2.3:6443
      certificate-authority: ca.pem
      ${more}
users:
  - name: me
    user: ${user}
`

describe("a service in a pod", () => {
  const inPod = Effect.gen(function*() {
    const made = yield* cluster
    const serviceAccount = path.join(made.folder, "account")
    yield* Effect.promise(() => mkdir(serviceAccount))
    yield* writeText(serviceAccount, "ca.crt", made.ca)
    yield* writeText(serviceAccount, "namespace", "boxes\n")
    yield* writeText(serviceAccount, "token", `${TOKEN}\n`)
    const environment = { KUBERNETES_SERVICE_HOST: "127.0.0.1", KUBERNETES_SERVICE_PORT: String(made.port) }
    return { ...made, serviceAccount, environment }
  })

  it.live("is told who it is, and reads its token again when that has run out", () =>
    Effect.gen(function*() {
      const { environment, server, serviceAccount } = yield* inPod
      const found = yield* Cluster.find({ environment, serviceAccount })
      assert.strictEqual(found.namespace, "boxes")
      const api = yield* KubernetesApi.make(found)
      const version = api.call({ method: "GET", path: "/version" })
      yield* version
      server.tokens.clear()
      server.tokens.add("the-next")
      const failed = yield* Effect.flip(version)
      assert.deepStrictEqual([failed.status, failed.retryable], [401, true])
      yield* writeText(serviceAccount, "token", "the-next")
      yield* version
    }))

  it.live("trusts only a server with the authority's certificate, and tells no token", () =>
    Effect.gen(function*() {
      const { environment, serviceAccount } = yield* inPod
      const other = yield* cluster
      const found = yield* Cluster.find({ serviceAccount, environment: { ...environment, KUBERNETES_SERVICE_PORT: String(other.port) } })
      const api = yield* KubernetesApi.make(found)
      const failed = yield* Effect.flip(api.call({ method: "GET", path: "/version" }))
      assert.match(failed.detail, /cannot be reached \(DEPTH_ZERO_SELF_SIGNED_CERT\)/u)
      assert.deepStrictEqual(other.server.sent, [])
      assert.notInclude(JSON.stringify(failed), TOKEN)
      assert.notInclude(JSON.stringify(found), TOKEN)
    }))

  it.live("says what it lacks elsewhere", () =>
    Effect.gen(function*() {
      assert.include(yield* refused({ environment: {} }), "in no pod of Kubernetes")
      const { environment, folder } = yield* inPod
      assert.include(yield* refused({ environment, serviceAccount: folder }), "token cannot be read")
    }))
})

describe("a kubeconfig", () => {
  const write = Effect.fnUntraced(function*(text: string) {
    const folder = yield* temporaryFolder
    yield* writeText(folder, "ca.pem", "the authority")
    yield* writeText(folder, "token", "from-the-file")
    return yield* writeText(folder, "config", text)
  })

  it.live("says which cluster and who, in files beside it or in itself", () =>
    Effect.gen(function*() {
      const byFile = yield* Cluster.find({ kubeconfig: yield* write(kubeconfig("{ tokenFile: token }")) })
      assert.deepInclude(byFile, { ca: "the authority", namespace: "boxes", certificate: null })
      assert.strictEqual(byFile.server.href, "https://10.1.2.3:6443/")
      assert.strictEqual(Redacted.value((yield* byFile.token(false)) ?? assert.fail()), "from-the-file")
      const [cert, key] = ["certificate", "key"].map((text) => Buffer.from(text).toString("base64"))
      const user = `{ client-certificate-data: ${cert}, client-key-data: ${key}, token: given }`
      const byData = yield* Cluster.find({ kubeconfig: yield* write(kubeconfig(user)) })
      assert.strictEqual(byData.certificate?.cert, "certificate")
      assert.strictEqual(Redacted.value(byData.certificate?.key ?? assert.fail()), "key")
      assert.strictEqual(Redacted.value((yield* byData.token(false)) ?? assert.fail()), "given")
    }))

  for (
    const [title, text, expected] of [
      ["a program for its token", kubeconfig("{ exec: { command: aws } }"), "wants a program run for its token (exec)"],
      ["a plugin for its token", kubeconfig("{ auth-provider: { name: gcp } }"), "wants a program run for its token (auth-provider)"],
      ["another identity", kubeconfig("{ token: hunter2-secret, as: root }"), "has as, which"],
      ["a password", kubeconfig("{ username: me, password: hunter2-secret }"), "has username, which"],
      ["an untrusted server", kubeconfig("{}", "insecure-skip-tls-verify: true"), "leaves the API server unknown"],
      ["a proxy", kubeconfig("{ token: hunter2-secret }", "proxy-url: http://proxy"), "leads through a proxy"],
      ["plain http", kubeconfig("{}").replace("https:", "http:"), "is no https address"],
      ["a certificate without its key", kubeconfig("{ client-certificate: ca.pem }"), "without its key"],
      ["a context that is not there", kubeconfig("{}").replace("context: here", "context: there"), "has no context \"there\""],
      ["a cluster that is not there", kubeconfig("{}").replace("context: here", "context: nobody"), "does not have the cluster"],
      ["no YAML", "a: [hunter2-secret", "is no YAML"],
      ["aliases that grow", "a: &a [b, b]\nc: [*a, *a]", "is no YAML"],
      ["something else", "hello: hunter2-secret", "is no kubeconfig"]
    ] as const
  ) {
    it.live(`is refused that has ${title}`, () =>
      Effect.gen(function*() {
        const message = yield* refused({ kubeconfig: yield* write(text) })
        assert.include(message, expected)
        assert.notInclude(message, "hunter2")
      }))
  }

  it.live("is refused that is not there", () =>
    Effect.gen(function*() {
      assert.include(yield* refused({ kubeconfig: "/nowhere/config" }), "cannot be read")
    }))
})
