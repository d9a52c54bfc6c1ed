// What Kubeflow's training operator tells each replica of the jobs on standard input, by its own code
// (tests/tools/kubeflow.py lays it around this file).
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	kubeflowv1 "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	"github.com/kubeflow/training-operator/pkg/controller.v1/pytorch"
	"github.com/kubeflow/training-operator/pkg/controller.v1/tensorflow"
	corev1 "k8s.io/api/core/v1"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

type told map[string]map[string]string // "worker-0" -> variable -> value

func each(specs map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaSpec, tell func(rtype, index string, template *corev1.PodTemplateSpec) map[string]string) told {
	found := told{}
	for rtype, spec := range specs {
		for i := 0; i < int(*spec.Replicas); i++ {
			low, index := strings.ToLower(string(rtype)), fmt.Sprint(i)
			found[low+"-"+index] = tell(low, index, spec.Template.DeepCopy())
		}
	}
	return found
}

func main() {
	var jobs []json.RawMessage
	must(json.NewDecoder(os.Stdin).Decode(&jobs))
	answers := []told{}
	for _, raw := range jobs {
		tf, torch := &kubeflowv1.TFJob{}, &kubeflowv1.PyTorchJob{}
		must(json.Unmarshal(raw, tf))
		must(json.Unmarshal(raw, torch))
		kubeflowv1.SetDefaults_TFJob(tf)
		if len(tf.Spec.TFReplicaSpecs) > 0 {
			answers = append(answers, each(tf.Spec.TFReplicaSpecs, func(rtype, index string, _ *corev1.PodTemplateSpec) map[string]string {
				text, err := tensorflow.Record(tf, rtype, index)
				must(err)
				return map[string]string{"TF_CONFIG": text}
			}))
			continue
		}
		kubeflowv1.SetDefaults_PyTorchJob(torch)
		answers = append(answers, each(torch.Spec.PyTorchReplicaSpecs, func(rtype, index string, template *corev1.PodTemplateSpec) map[string]string {
			template.Spec.Containers[0].Env = nil
			must(pytorch.Record(torch, template, rtype, index))
			env := map[string]string{}
			for _, one := range template.Spec.Containers[0].Env {
				env[one.Name] = one.Value
			}
			return env
		}))
	}
	must(json.NewEncoder(os.Stdout).Encode(answers))
}
