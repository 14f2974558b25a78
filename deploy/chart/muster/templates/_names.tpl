{{- define "muster.selector" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "muster.labels" -}}
{{ include "muster.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "muster.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "muster.scheme" -}}
{{ if .Values.metrics.secretName }}HTTPS{{ else }}HTTP{{ end }}
{{- end }}

{{- define "muster.components" -}}
scheduler{{ if .Values.oneProcess }}{{ if .Values.controllers.enabled }},controllers{{ end }}{{ if .Values.webhooks.enabled }},admission{{ end }}{{ end }}
{{- end }}

{{- define "muster.controllers.arguments" -}}
{{- if .Values.controllers.takeOverJobs }}
- --take-over-jobs
{{- end }}
{{- if .Values.controllers.discovery.config }}
- --discovery
- {{ .Release.Namespace }}/{{ .Release.Name }}-discovery
{{- end }}
{{- if .Values.controllers.extraArguments }}
{{ toYaml .Values.controllers.extraArguments }}
{{- end }}
{{- end }}

{{- define "muster.controllers.account" -}}
{{ .Release.Name }}{{ if .Values.oneProcess }}{{ else }}-controllers{{ end }}
{{- end }}

{{- define "muster.webhooks.account" -}}
{{ .Release.Name }}{{ if .Values.oneProcess }}{{ else }}-webhooks{{ end }}
{{- end }}

{{- define "muster.webhooks.pods" -}}
{{ if .Values.oneProcess }}{{ include "muster.selector" . }}{{ else }}{{ include "muster.webhooks.selector" . }}{{ end }}
{{- end }}

{{- define "muster.webhooks.selector" -}}
app.kubernetes.io/name: muster-webhooks
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "muster.webhooks.labels" -}}
{{ include "muster.webhooks.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "muster.controllers.selector" -}}
app.kubernetes.io/name: muster-controllers
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "muster.controllers.labels" -}}
{{ include "muster.controllers.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "muster.ui.selector" -}}
app.kubernetes.io/name: muster-ui
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "muster.ui.labels" -}}
{{ include "muster.ui.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "muster.ui.scheme" -}}
{{ if .Values.ui.secretName }}HTTPS{{ else }}HTTP{{ end }}
{{- end }}

{{- define "muster.reads" -}}
- apiGroups: [""]
  resources: [pods, nodes, namespaces, resourcequotas, persistentvolumes, persistentvolumeclaims]
  verbs: [list, watch]
- apiGroups: [scheduling.k8s.io]
  resources: [priorityclasses]
  verbs: [list, watch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list, watch]
- apiGroups: [storage.k8s.io]
  resources: [storageclasses]
  verbs: [list, watch]
- apiGroups: [resource.k8s.io]
  resources: [resourceclaims, deviceclasses, resourceslices]
  verbs: [list, watch]
- apiGroups: [scheduling.volcano.sh]
  resources: [podgroups, queues]
  verbs: [list, watch]
- apiGroups: [topology.volcano.sh]
  resources: [hypernodes]
  verbs: [list, watch]
- apiGroups: [scheduling.run.ai]
  resources: [podgroups, queues]
  verbs: [list, watch]
- apiGroups: [kai.scheduler, kueue.x-k8s.io]
  resources: [topologies]
  verbs: [list, watch]
{{- end }}
