{{- define "slipway.name" -}}
{{- if contains "slipway" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-slipway" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "slipway.selector" -}}
app.kubernetes.io/name: slipway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "slipway.labels" -}}
{{ include "slipway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "slipway.secret" -}}
{{ .Values.existingSecret | default (include "slipway.name" .) }}
{{- end }}

{{- define "slipway.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Environment of a process: .root, .settings its own, .secretEnv, .fixed what only the chart may say. */}}
{{- define "slipway.env" -}}
{{- $secret := include "slipway.secret" .root -}}
{{- $given := merge (dict) .fixed .settings .root.Values.settings (dict "SLIPWAY_LOG_FORMAT" "json") -}}
- name: DATABASE_URL
  valueFrom: { secretKeyRef: { name: {{ $secret }}, key: database-url } }
{{- if hasKey $given "SLIPWAY_METRICS_ADDRESS" }}
# Before those that name it.
- name: POD_IP
  valueFrom: { fieldRef: { fieldPath: status.podIP } }
{{- end }}
{{- range $name := keys $given | sortAlpha }}
- name: {{ $name }}
  value: {{ get $given $name | toString | quote }}
{{- end }}
{{- range .secretEnv }}
- name: {{ . }}
  valueFrom: { secretKeyRef: { name: {{ $secret }}, key: {{ . }} } }
{{- end }}
{{- end }}

{{/* Settings of every process. */}}
{{- define "slipway.fixed" -}}
SLIPWAY_PUBLIC_URL: {{ required "publicUrl is needed: the address that people and programs use" .Values.publicUrl | quote }}
SLIPWAY_SECRETS_KEY_FILE: /etc/slipway/secrets/secrets.key
{{- end }}

{{/* Settings of workers whose sandboxes are pods. */}}
{{- define "slipway.machines" -}}
{{- $machines := .Values.kubernetes -}}
SLIPWAY_ISOLATION: kubernetes
SLIPWAY_KUBERNETES_NAMESPACE: {{ $machines.namespace }}
SLIPWAY_KUBERNETES_IMAGE: {{ $machines.image | default (include "slipway.image" .) | quote }}
SLIPWAY_KUBERNETES_OWNER: {{ include "slipway.name" . }}
SLIPWAY_KUBERNETES_USER_NAMESPACES: {{ $machines.userNamespaces | toString | quote }}
{{- if $machines.podTemplate }}
SLIPWAY_KUBERNETES_POD_TEMPLATE: /etc/slipway/pod-template/pod.json
{{- end }}
{{- end }}

{{/* Restarts pods whose Secret this chart writes. */}}
{{- define "slipway.annotations" -}}
{{- if not .root.Values.existingSecret }}
checksum/secret: {{ toJson .root.Values.secret | sha256sum }}
{{- end }}
{{- with .own }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "slipway.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with .affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- end }}

{{/* Not on one machine, where there are others. */}}
{{- define "slipway.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "slipway.selector" .root | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
{{- end }}
