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

{{- define "muster.webhooks.selector" -}}
app.kubernetes.io/name: muster-webhooks
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "muster.webhooks.labels" -}}
{{ include "muster.webhooks.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}
