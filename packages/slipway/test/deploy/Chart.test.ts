/**
 * The chart of deploy/helm: what it makes, by the types of three versions of Kubernetes, which know every field. `chart/render.go`
 * renders it; where helm is installed, helm does too, and says the same.
 */
import { PORT } from "@slipway/kubernetes/MachinePod"
import { VERBS } from "@slipway/kubernetes/Probe"
import { Ajv } from "ajv"
import { execFileSync, spawnSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { afterAll, assert, describe, it } from "vitest"
import { parse, parseAllDocuments } from "yaml"
import * as Settings from "../../src/settings/Settings.ts"
import { file, has, text, workspace } from "./Deploy.ts"

const chart = file("helm/slipway")
const folder = mkdtempSync(path.join(tmpdir(), "slipway-chart-"))
afterAll(() => rmSync(folder, { recursive: true }))

/** Where Debian has the sources of its packages. */
const GO = { GO111MODULE: "off", GOPATH: "/usr/share/gocode", GOCACHE: path.join(folder, "cache") }
const renderer = path.join(folder, "render")

const withoutGo = !has("go", ["version"])
const withoutHelm = !has("helm", ["version"])

interface Manifest {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly labels: Readonly<Record<string, string>> }
  // Kubernetes checks this by its types; tests read it as it is.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly spec: any
  readonly data?: Readonly<Record<string, string>>
}

type Values = Readonly<Record<string, unknown>>

const KUBERNETES = ["1.26", "1.29", "1.30"] as const

const inYaml = (said: string): ReadonlyArray<Manifest> =>
  // Kubernetes reads numbers such as 0440 as octal ones.
  parseAllDocuments(said, { version: "1.1" }).map((document) => {
    assert.deepStrictEqual(document.errors, [], said)
    return document.toJS()
  }).filter((manifest) => manifest !== null)

const run = (values: Values, version: string) => {
  if (!built) {
    execFileSync("go", ["build", "-o", renderer, path.join(import.meta.dirname, "chart/render.go")], { env: { ...process.env, ...GO } })
  }
  built = true
  return spawnSync(renderer, [chart], {
    input: JSON.stringify({ release: "slipway", namespace: "dev", kubeVersion: `v${version}.0`, values }),
    encoding: "utf8"
  })
}
let built = false

const render = (values: Values, version: string = "1.30"): ReadonlyArray<Manifest> => {
  const { status, stderr, stdout } = run(values, version)
  assert.strictEqual(status, 0, stderr)
  const { "NOTES.txt": notes, ...files }: Readonly<Record<string, string>> = JSON.parse(stdout)
  assert.include(notes, "slipway doctor")
  return Object.values(files).flatMap(inYaml)
}

const validate = new Ajv({ strict: true, allowUnionTypes: true }).compile(JSON.parse(text("helm/slipway/values.schema.json")))

const least = { publicUrl: "https://slipway.example.com", existingSecret: "given" }
const most = {
  publicUrl: "https://tools.example.com/slipway",
  secret: { databaseUrl: "postgres://slipway:secret@db/slipway", secretsKey: "c2VjcmV0" },
  trustedProxies: "10.1.0.0/16",
  imagePullSecrets: [{ name: "registry" }],
  settings: { SLIPWAY_GITHUB_APP_ID: "123", SLIPWAY_GITHUB_PRIVATE_KEY_FILE: "/etc/slipway/secrets/github.pem" },
  http: {
    settings: { SLIPWAY_RATE_LIMIT_PER_MINUTE: 600 },
    secretEnv: ["SLIPWAY_GITHUB_WEBHOOK_SECRET"],
    autoscaling: { enabled: true },
    podAnnotations: { team: "tools" },
    nodeSelector: { pool: "web" },
    tolerations: [{ key: "web", operator: "Exists" }],
    affinity: { nodeAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] } }
  },
  ingress: { enabled: true, className: "nginx", tlsSecretName: "tls", annotations: { a: "b" } },
  worker: {
    settings: { SLIPWAY_EGRESS_ALLOW: "registry.npmjs.org:443" },
    secretEnv: ["ANTHROPIC_API_KEY"],
    drainSeconds: 600,
    storage: { ephemeral: true, size: "100Gi" },
    runtimeClassName: "kata",
    seccompProfile: { type: "Localhost", localhostProfile: "slipway/seccomp.json" },
    autoscaling: { enabled: true }
  },
  networkPolicy: { ingressFrom: [{ namespaceSelector: {} }], metricsFrom: [{ namespaceSelector: {} }] },
  serviceMonitor: { enabled: true, labels: { release: "prometheus" } }
}

const machines = {
  ...least,
  kubernetes: {
    enabled: true,
    namespace: "boxes",
    podTemplate: { spec: { imagePullSecrets: [{ name: "registry" }], runtimeClassName: "kata" } },
    userNamespaces: false
  }
}

const one = (manifests: ReadonlyArray<Manifest>, kind: string, name: string): Manifest => {
  const found = manifests.filter((manifest) => manifest.kind === kind && manifest.metadata.name === name)
  assert.lengthOf(found, 1, `${kind} ${name}`)
  return found[0] ?? assert.fail()
}

const environment = (manifest: Manifest): Readonly<Record<string, string>> =>
  Object.fromEntries(
    manifest.spec.template.spec.containers[0].env.map(({ name, value }: { name: string; value?: string }) => [name, value])
  )

/** The types that a manifest has to be of, by its kind. */
const TYPES: Readonly<Record<string, readonly [module: string, type: string]>> = {
  Deployment: ["apps/v1", "Deployment"],
  StatefulSet: ["apps/v1", "StatefulSet"],
  Service: ["core/v1", "Service"],
  Secret: ["core/v1", "Secret"],
  PodDisruptionBudget: ["policy/v1", "PodDisruptionBudget"],
  HorizontalPodAutoscaler: ["autoscaling/v2", "HorizontalPodAutoscaler"],
  Ingress: ["networking.k8s.io/v1", "Ingress"],
  NetworkPolicy: ["networking.k8s.io/v1", "NetworkPolicy"],
  Namespace: ["core/v1", "Namespace"],
  ConfigMap: ["core/v1", "ConfigMap"],
  ResourceQuota: ["core/v1", "ResourceQuota"],
  ServiceAccount: ["core/v1", "ServiceAccount"],
  Role: ["rbac.authorization.k8s.io/v1", "Role"],
  RoleBinding: ["rbac.authorization.k8s.io/v1", "RoleBinding"],
  ClusterRole: ["rbac.authorization.k8s.io/v1", "ClusterRole"],
  ClusterRoleBinding: ["rbac.authorization.k8s.io/v1", "ClusterRoleBinding"]
}
const FOLDERS: Readonly<Record<string, string>> = { "networking.k8s.io/v1": "networking/v1", "rbac.authorization.k8s.io/v1": "rbac/v1" }

/** The compiler's complaints about manifests as values of those types: none if each field is known and right. */
const complaints = (manifests: ReadonlyArray<Manifest>, version: string): string => {
  const lines = manifests.flatMap((manifest, n) => {
    const [module, type] = TYPES[manifest.kind] ?? []
    // Others than Kubernetes define these.
    if (module === undefined) return []
    assert.strictEqual(manifest.apiVersion, module === "core/v1" ? "v1" : module)
    return [
      `import type { ${type} as T${n} } from "kubernetes-types-${version}/${FOLDERS[module] ?? module}.d.ts"`,
      `export const m${n}: T${n} = ${JSON.stringify(manifest, null, 1)}`
    ]
  })
  const source = path.join(folder, `manifests-${version}.ts`)
  writeFileSync(source, lines.join("\n"))
  const config = path.join(folder, `tsconfig-${version}.json`)
  writeFileSync(
    config,
    JSON.stringify({
      compilerOptions: {
        noEmit: true,
        strict: true,
        skipLibCheck: true,
        types: [],
        module: "esnext",
        moduleResolution: "bundler",
        allowImportingTsExtensions: true,
        paths: { [`kubernetes-types-${version}/*`]: [path.join(workspace, `node_modules/kubernetes-types-${version}/*`)] }
      },
      files: [source]
    })
  )
  return spawnSync(path.join(workspace, "node_modules/.bin/tsc"), ["-p", config], { encoding: "utf8" }).stdout
}

describe("values of the chart", () => {
  it("are those of its schema, as they come and with all that may be said", () => {
    const defaults = parse(text("helm/slipway/values.yaml"))
    assert.isTrue(validate({ ...defaults, ...least }), JSON.stringify(validate.errors))
    assert.isTrue(validate(most), JSON.stringify(validate.errors))
    assert.isTrue(validate(machines), JSON.stringify(validate.errors))
    assert.isFalse(validate(defaults), "publicUrl is not said")
    for (const wrong of [{ replicas: 2 }, { worker: { drainSeconds: "8" } }, { settings: { DATABASE_URL: "postgres://" } }]) {
      assert.isFalse(validate({ ...least, ...wrong }), JSON.stringify(wrong))
    }
  })

  it("are told in its README, each of them", () => {
    const readme = text("helm/slipway/README.md")
    const named = (values: Values, at: string): ReadonlyArray<string> =>
      Object.entries(values).flatMap(([name, value]) =>
        typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length > 0
          ? named(value as Values, `${at}${name}.`)
          : [at + name]
      )
    for (const name of named(parse(text("helm/slipway/values.yaml")), "")) assert.include(readme, `\`${name}\``)
  })
})

describe.skipIf(withoutGo)("the chart (needs golang-go, golang-github-masterminds-sprig-dev and golang-k8s-sigs-yaml-dev)", () => {
  for (const version of KUBERNETES) {
    it(`makes what Kubernetes ${version} knows, with the least and with the most that can be said`, () => {
      for (const values of [least, most, machines]) assert.strictEqual(complaints(render(values, version), version), "")
      const [http] = render(least, version).filter(({ kind }) => kind === "Deployment")
      const misspelt = { ...http, spec: { ...http?.spec, replica: 2 } } as unknown as Manifest
      assert.include(complaints([misspelt], version), "replica")
    })
  }

  it("needs an address and a Secret or what is in one", () => {
    assert.include(run({ existingSecret: "given" }, "1.30").stderr, "publicUrl is needed")
    assert.include(run({ publicUrl: "https://slipway.example.com" }, "1.30").stderr, "existingSecret or secret.databaseUrl is needed")
    assert.isFalse(render(least).some(({ kind }) => kind === "Secret"))
    assert.isTrue(render(most).some(({ kind }) => kind === "Secret"))
  })

  it("sets settings that are ones, for processes that find each other, and lets none of its own be changed", () => {
    const manifests = render({ ...most, settings: { ...most.settings, SLIPWAY_ROLE: "all" } })
    const [http, worker] = [one(manifests, "Deployment", "slipway-http"), one(manifests, "StatefulSet", "slipway-worker")]
    const [ofHttp, ofWorker] = [environment(http), environment(worker)]
    for (const names of [ofHttp, ofWorker]) {
      const ours = Object.fromEntries(Object.keys(names).filter((name) => /^(?:SLIPWAY|OTEL)_/u.test(name)).map((name) => [name, "x"]))
      assert.deepStrictEqual(Settings.unknown(ours), [])
    }
    assert.deepStrictEqual([ofHttp["SLIPWAY_ROLE"], ofWorker["SLIPWAY_ROLE"]], ["http", "worker"])
    assert.strictEqual(ofHttp["SLIPWAY_TRUSTED_PROXIES"], "10.1.0.0/16")
    assert.strictEqual(ofHttp["SLIPWAY_RATE_LIMIT_PER_MINUTE"], "600")
    assert.strictEqual(ofWorker["SLIPWAY_WORKER_ADDRESS"], "$(POD_IP):4001")
    assert.isBelow(Object.keys(ofWorker).indexOf("POD_IP"), Object.keys(ofWorker).indexOf("SLIPWAY_WORKER_ADDRESS"))
    assert.isTrue("ANTHROPIC_API_KEY" in ofWorker && !("ANTHROPIC_API_KEY" in ofHttp))
    // Values of the Secret are in no environment that a manifest shows.
    assert.notInclude(JSON.stringify([http, worker]), "postgres://")
  })

  it("gives pods the time that ending takes, and selects them", () => {
    for (const [values, seconds] of [[least, 8], [most, 600]] as const) {
      const manifests = render(values)
      const worker = one(manifests, "StatefulSet", "slipway-worker")
      assert.isAtLeast(worker.spec.template.spec.terminationGracePeriodSeconds, seconds + 90)
      assert.strictEqual(environment(worker)["SLIPWAY_DRAIN_SECONDS"], `${seconds}`)
      const pods = [one(manifests, "Deployment", "slipway-http"), worker].map(({ spec }) => spec.template)
      const selects = (selector: Readonly<Record<string, string>>) =>
        pods.map(({ metadata: { labels } }) => Object.entries(selector).every(([name, value]) => labels[name] === value))
      const selectors = manifests.flatMap(({ kind, metadata: { name }, spec }) =>
        kind === "Service" ?
          [[name, spec.selector]] :
          kind === "PodDisruptionBudget" ?
          [[name, spec.selector.matchLabels]] :
          kind === "NetworkPolicy"
          ? [[name, spec.podSelector.matchLabels]]
          : []
      )
      assert.lengthOf(selectors, 6)
      for (const [name, selector] of selectors) {
        assert.deepStrictEqual(selects(selector), name.endsWith("worker") ? [false, true] : [true, false])
      }
    }
  })

  it("runs nothing as root, writes to no root and gives no capability", () => {
    for (const { spec } of render(most).filter(({ kind }) => kind === "Deployment" || kind === "StatefulSet")) {
      const pod = spec.template.spec
      assert.deepStrictEqual([pod.securityContext.runAsNonRoot, pod.securityContext.runAsUser], [true, 10001])
      assert.isFalse(pod.automountServiceAccountToken)
      for (const { securityContext } of pod.containers) {
        assert.deepInclude(securityContext, {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] }
        })
      }
    }
    for (const runAsUser of [null, 1_001_230_000]) {
      for (const { spec } of render({ ...least, runAsUser }).filter(({ kind }) => kind === "Deployment" || kind === "StatefulSet")) {
        const { fsGroup, runAsGroup, runAsNonRoot, runAsUser: user } = spec.template.spec.securityContext
        assert.deepStrictEqual([runAsNonRoot, user ?? null, runAsGroup ?? null, fsGroup ?? null], [true, runAsUser, runAsUser, runAsUser])
      }
    }
    const worker = one(render(least), "StatefulSet", "slipway-worker").spec.template.spec
    assert.deepStrictEqual([worker.hostUsers, worker.containers[0].securityContext.procMount], [false, "Unmasked"])
  })

  it("gives machines of sandboxes a namespace of their own, where workers may do what they do and pods reach nothing", () => {
    assert.isFalse(render(least).some(({ kind, metadata }) => kind === "Role" || metadata.namespace !== undefined))
    const manifests = render(machines)
    const worker = one(manifests, "StatefulSet", "slipway-worker")
    const { rules, subjects } = one(manifests, "Role", "slipway-worker") as unknown as {
      readonly rules: ReadonlyArray<
        { readonly apiGroups: ReadonlyArray<string>; readonly resources: ReadonlyArray<string>; readonly verbs: ReadonlyArray<string> }
      >
      readonly subjects: unknown
    }
    assert.isUndefined(subjects)
    assert.deepStrictEqual(
      rules.map(({ apiGroups, resources, verbs }) => [apiGroups, resources, verbs]),
      VERBS.map(([{ apiVersion, plural }, verbs]) => [
        [apiVersion.includes("/") ? apiVersion.slice(0, apiVersion.indexOf("/")) : ""],
        [plural],
        [...verbs]
      ])
    )
    const policy = one(manifests.filter(({ metadata }) => metadata.namespace === "boxes"), "NetworkPolicy", "slipway").spec
    assert.deepStrictEqual([policy.podSelector, policy.policyTypes, policy.egress], [{}, ["Ingress", "Egress"], undefined])
    assert.deepStrictEqual(policy.ingress, [{
      ports: [{ port: PORT, protocol: "TCP" }],
      from: [{
        namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "dev" } },
        podSelector: {
          matchLabels: {
            "app.kubernetes.io/name": "slipway",
            "app.kubernetes.io/instance": "slipway",
            "app.kubernetes.io/component": "worker"
          }
        }
      }]
    }])
    assert.deepInclude(one(manifests, "Namespace", "boxes").metadata.labels, { "pod-security.kubernetes.io/enforce": "baseline" })
    const pod = worker.spec.template.spec
    assert.deepStrictEqual([pod.serviceAccountName, pod.automountServiceAccountToken], ["slipway-worker", true])
    assert.deepStrictEqual(pod.containers[0].securityContext, {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
      seccompProfile: { type: "RuntimeDefault" }
    })
    const settings = environment(worker)
    assert.deepStrictEqual(
      Settings.unknown(Object.fromEntries(Object.keys(settings).filter((name) => /^SLIPWAY_/u.test(name)).map((name) => [name, ""]))),
      []
    )
    assert.deepInclude(settings, {
      SLIPWAY_ISOLATION: "kubernetes",
      SLIPWAY_KUBERNETES_NAMESPACE: "boxes",
      SLIPWAY_KUBERNETES_OWNER: one(manifests, "ConfigMap", "slipway").metadata.name,
      SLIPWAY_KUBERNETES_POD_TEMPLATE: "/etc/slipway/pod-template/pod.json",
      SLIPWAY_KUBERNETES_USER_NAMESPACES: "false"
    })
    const template = one(manifests, "ConfigMap", "slipway-pod-template")
    assert.deepStrictEqual(JSON.parse(template.data?.["pod.json"] ?? ""), machines.kubernetes.podTemplate)
    assert.deepInclude(pod.containers[0].volumeMounts, { name: "pod-template", mountPath: "/etc/slipway/pod-template", readOnly: true })
    assert.deepInclude(pod.volumes, { name: "pod-template", configMap: { name: template.metadata.name } })
    assert.include(
      run({ ...machines, kubernetes: { ...machines.kubernetes, namespace: "dev" } }, "1.30").stderr,
      "another than the release's"
    )
  })

  it.skipIf(withoutHelm)("is rendered by helm in the same way (needs helm)", () => {
    for (const values of [least, most, machines]) {
      const given = path.join(folder, "values.json")
      writeFileSync(given, JSON.stringify(values))
      const said = execFileSync(
        "helm",
        ["template", "slipway", chart, "--namespace", "dev", "--kube-version", "1.30.0", "--values", given],
        {
          encoding: "utf8"
        }
      )
      const ordered = (manifests: ReadonlyArray<Manifest>) =>
        manifests.map((manifest) => [`${manifest.kind} ${manifest.metadata.name}`, manifest] as const).sort(([a], [b]) => a < b ? -1 : 1)
      assert.deepStrictEqual(ordered(inYaml(said)), ordered(render(values)))
    }
  })
})
