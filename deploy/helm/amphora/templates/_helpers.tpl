{{- define "amphora.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "amphora.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "amphora.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "amphora.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "amphora.selector" -}}
app.kubernetes.io/name: {{ include "amphora.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "amphora.labels" -}}
{{ include "amphora.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "amphora.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}

{{- define "amphora.serviceAccount" -}}
{{- default (include "amphora.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{/* Not empty if the server's pod mounts volumes itself. */}}
{{- define "amphora.mountsHere" -}}
{{- if and .Values.csi.enabled (eq .Values.node.placement "store") }}true{{ end -}}
{{- end -}}

{{/* Not empty if the metadata is in PostgreSQL and the content in S3: then several servers have the store, one after the other. */}}
{{- define "amphora.elsewhere" -}}
{{- if or .Values.metadata.url .Values.metadata.urlSecret.name }}true{{ end -}}
{{- end -}}

{{/* Not empty if the driver's node service runs in a DaemonSet. */}}
{{- define "amphora.hasNodes" -}}
{{- if and .Values.csi.enabled (eq .Values.node.placement "nodes") }}true{{ end -}}
{{- end -}}

{{/* Not empty if the server listens for mounts on other machines. */}}
{{- define "amphora.listens" -}}
{{- if or .Values.volumes.enabled (include "amphora.hasNodes" .) }}true{{ end -}}
{{- end -}}

{{/* The user of the server and its sidecars. Mounting needs root; a socket accepts root and the server's own user. */}}
{{- define "amphora.user" -}}
{{- if include "amphora.mountsHere" . }}0{{ else }}{{ .Values.store.user }}{{ end -}}
{{- end -}}

{{- define "amphora.volumeTlsSecret" -}}
{{- if .Values.volumes.tls.certManager.enabled -}}
{{- printf "%s-volumes-tls" (include "amphora.fullname" .) -}}
{{- else -}}
{{- .Values.volumes.tls.existingSecret -}}
{{- end -}}
{{- end -}}

{{/* Where volumes can be used: KEY=VALUE,… */}}
{{- define "amphora.topology" -}}
{{- $segments := list -}}
{{- range $key, $value := .Values.csi.topology -}}
{{- $segments = append $segments (printf "%s=%s" $key $value) -}}
{{- end -}}
{{- join "," $segments -}}
{{- end -}}

{{/* Not empty if backup programs may ask for ranges of snapshots. */}}
{{- define "amphora.tellsRanges" -}}
{{- if and .Values.csi.enabled .Values.csi.snapshotMetadata.enabled }}true{{ end -}}
{{- end -}}

{{/* The Secret with the certificate of csi.snapshotMetadata. */}}
{{- define "amphora.metadataTlsSecret" -}}
{{- if .Values.csi.snapshotMetadata.tls.certManager.enabled -}}
{{- printf "%s-snapshot-metadata-tls" (include "amphora.fullname" .) -}}
{{- else -}}
{{- .Values.csi.snapshotMetadata.tls.existingSecret -}}
{{- end -}}
{{- end -}}

{{/* The Secret with the certificate that all nodes show. */}}
{{- define "amphora.nodeTlsSecret" -}}
{{- if .Values.node.certificate.certManager.enabled -}}
{{- printf "%s-node-tls" (include "amphora.fullname" .) -}}
{{- else -}}
{{- .Values.node.certificate.existingSecret -}}
{{- end -}}
{{- end -}}

{{/* Not empty if nodes show a certificate. */}}
{{- define "amphora.nodeShows" -}}
{{- if or .Values.node.certificate.volume (include "amphora.nodeTlsSecret" .) }}true{{ end -}}
{{- end -}}

{{/* The address at which nodes reach the server. */}}
{{- define "amphora.volumeServer" -}}
{{- default (printf "%s-volumes.%s.svc:%v" (include "amphora.fullname" .) .Release.Namespace .Values.volumes.service.port) .Values.node.server -}}
{{- end -}}

{{- define "amphora.tlsSecret" -}}
{{- if .Values.tls.certManager.enabled -}}
{{- printf "%s-tls" (include "amphora.fullname" .) -}}
{{- else -}}
{{- .Values.tls.existingSecret -}}
{{- end -}}
{{- end -}}

{{- define "amphora.endpointUrl" -}}
{{- if .Values.store.s3.endpointUrl -}}
{{- .Values.store.s3.endpointUrl -}}
{{- else -}}
{{- $scheme := ternary "https" "http" (not (empty (include "amphora.tlsSecret" .))) -}}
{{- printf "%s://%s.%s.svc:%v" $scheme (include "amphora.fullname" .) .Release.Namespace .Values.service.port -}}
{{- end -}}
{{- end -}}

{{/* The folder on the node for the driver's socket, as kubelet knows it. */}}
{{- define "amphora.pluginFolder" -}}
{{- printf "%s/plugins/%s" .Values.kubeletPath .Values.csi.driverName -}}
{{- end -}}

{{/* The folder on the node for the holder's socket: one for each release. */}}
{{- define "amphora.holderFolder" -}}
{{- printf "%s/%s-%s" .Values.holder.hostPath .Release.Namespace (include "amphora.fullname" .) -}}
{{- end -}}

{{/* The folder on the node for the records of its mounts, which hold tickets. It lies in memory, as what it names ends with the boot. */}}
{{- define "amphora.nodeFolder" -}}
{{- printf "%s/%s-%s-node" .Values.holder.hostPath .Release.Namespace (include "amphora.fullname" .) -}}
{{- end -}}

{{- define "amphora.bare" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* A sidecar that talks to the API server: the folder of its own socket and no other, the pod's token, and perhaps ports and
     more volumes. */}}
{{- define "amphora.sidecar" -}}
- name: {{ .name }}
  image: "{{ .values.image.repository }}:{{ .values.image.tag }}"
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  args:
    {{- toYaml (concat .args .values.extraArgs) | nindent 4 }}
  securityContext:
    {{- include "amphora.bare" .root | nindent 4 }}
  resources:
    {{- toYaml .values.resources | nindent 4 }}
  {{- with .env }}
  env:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .ports }}
  ports:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  volumeMounts:
    - {name: {{ .socket }}, mountPath: /{{ trimSuffix "-socket" .socket }}}
    - {name: api-token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
    {{- with .mounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* The sidecar that registers the driver with kubelet, in the pod of the process that serves the node's socket. */}}
{{- define "amphora.registrar" -}}
{{- $socket := printf "%s/csi.sock" (include "amphora.pluginFolder" .) -}}
- name: registrar
  image: "{{ .Values.node.registrar.image.repository }}:{{ .Values.node.registrar.image.tag }}"
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args:
    - --csi-address={{ $socket }}
    - --kubelet-registration-path={{ $socket }}
    {{- with .Values.node.registrar.extraArgs }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  securityContext:
    {{- include "amphora.bare" . | nindent 4 }}
  resources:
    {{- toYaml .Values.node.registrar.resources | nindent 4 }}
  volumeMounts:
    - {name: node-socket, mountPath: {{ include "amphora.pluginFolder" . }}}
    - {name: registration, mountPath: /registration}
{{- end -}}

{{/* The sidecar that asks the node service's Probe for kubelet. */}}
{{- define "amphora.livenessProbe" -}}
{{- $socket := printf "%s/csi.sock" (include "amphora.pluginFolder" .) -}}
- name: liveness-probe
  image: "{{ .Values.node.livenessProbe.image.repository }}:{{ .Values.node.livenessProbe.image.tag }}"
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args:
    - --csi-address={{ $socket }}
    - --health-port=9808
    {{- with .Values.node.livenessProbe.extraArgs }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  securityContext:
    {{- include "amphora.bare" . | nindent 4 }}
  resources:
    {{- toYaml .Values.node.livenessProbe.resources | nindent 4 }}
  volumeMounts:
    - {name: node-socket, mountPath: {{ include "amphora.pluginFolder" . }}}
{{- end -}}
