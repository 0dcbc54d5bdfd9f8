"""The 100 commonest attribute and method names of public classes in Keras 3.15.1, scikit-learn 1.9.1 and Flower 1.42.0 each.

Counted over the wheels' sources (without tests, `*_pb2.py` and `*_pb2_grpc.py`): in how many classes without a leading
underscore, 857 of Keras, 471 of scikit-learn and 413 of Flower (`flwr`), a name without one is a method, an attribute of the
class body, annotated or not, or is assigned to `self` in a method; equal counts by the alphabet. The 100 commonest of all three
together, by the sum of the counts or of the shares, are among these.
"""

from __future__ import annotations

KERAS = """
activation adapt alpha axes axis batch_size beta beta_1 beta_2 bias bias_constraint bias_initializer bias_regularizer
build built call compute_dtype compute_mask compute_output_shape compute_output_spec convert_to_numpy
convert_to_torch_compatible data_format dilation_rate dropout dtype epsilon evaluate factor fft_length fill_mode
fill_value filters fit from_config from_logits gamma generator get get_config get_initial_state get_jax_iterator
get_numpy_iterator get_random_transformation get_tf_dataset get_torch_dataloader height_axis input_spec interpolation k
keepdims kernel kernel_constraint kernel_initializer kernel_regularizer kernel_size label_smoothing load_own_variables
loss mode name num_batches on_epoch_begin on_epoch_end on_train_batch_end on_train_begin on_train_end output_mode
output_size padding predict predict_function recurrent_constraint recurrent_dropout recurrent_initializer
recurrent_regularizer reset_state result save_own_variables scale seed seed_generator shape sparse strides supports_jit
supports_masking test_function threshold transform_bounding_boxes transform_images transform_labels
transform_segmentation_masks units update_state update_step use_bias value_range variables verbose
"""
SCIKIT_LEARN = """
C algorithm alpha alpha_ ax_ batch_size ccp_alpha class_weight classes_ coef0 coef_ components_ constant_to_optimal_zero
copy copy_X criterion cv decision_function degree diag dtype embedding_ eps epsilon estimator estimator_ estimators_
feature_names_in_ figure_ fit fit_intercept fit_predict fit_transform from_estimator from_predictions gamma
get_feature_names_out get_metadata_routing get_n_splits get_params init intercept_ interval_y_pred interval_y_true inverse
inverse_transform is_stationary kernel l1_ratio labels_ learning_rate link location_ loss max_depth max_features max_iter
max_leaf_nodes message method metric metric_params min_impurity_decrease min_samples_leaf min_samples_split
min_weight_fraction_leaf monotonic_cst n_classes_ n_components n_components_ n_features_in_ n_iter_ n_jobs n_neighbors
offset_ partial_fit path plot pos_label positive precompute predict predict_log_proba predict_proba random_state score
score_samples scoring selection set_params shuffle solver split staged_predict threshold tol transform verbose warm_start
weights
"""
FLOWER = """
RegisterNode UnregisterNode add_clientapp_runtime aggregate_evaluate aggregate_fit aggregate_train all authn_plugin call
children client_manager client_resources clip_norm_lr clipping_norm close code config configure_evaluate configure_fit
configure_train connector_id connector_ref content created_at current_arrays current_weights deflate delete
delete_messages description dispatch display_name dst_node_id env error evaluate exit_code expires_at fab_hash fab_id
fab_version federation_id federation_manager finish_task finished_at fit flwr_aid from_payload get get_compacted_contexts
get_metadata get_nodes get_parameters get_properties group_id id inflate initialize_parameters insecure intercept
intercept_service launch lock m_t message message_id message_type metadata name node_id noise_multiplier
num_sampled_clients object_id objectstore_factory parameters provider pull_messages push_messages reconnect
reply_to_message_id root_certificates_path run run_id runtime runtime_api_address runtime_dependency_install search
series_id src_node_id starting_at state status strategy summary task_id token tools ttl v_t validate_payload
"""

COMMON = frozenset(f"{KERAS} {SCIKIT_LEARN} {FLOWER}".split())
